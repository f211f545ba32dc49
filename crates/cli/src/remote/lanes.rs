//! `tollgate lanes …`.

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use serde_json::{Map, Value, json};

use super::Shown;
use super::accounts::Day;
use super::client::{Client, quoted};
use super::lane_views as views;
use super::table::{history, query};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// All lanes: their limits, and whether they send now.
    List,
    /// Changes a lane, or creates it. What is left out keeps its value.
    Set {
        /// The lane's name.
        name: String,
        #[command(flatten)]
        change: Change,
        /// What the next person should know.
        #[arg(long)]
        reason: String,
        /// Even if it strands what waits.
        #[arg(long)]
        confirm: bool,
    },
    /// Stops a lane's sends: now or at a time, until a time or until it is resumed.
    Pause {
        /// The lane's name.
        name: String,
        /// What the next person should know.
        #[arg(long)]
        reason: String,
        /// When it begins, such as 2026-11-16T16:00:00-07:00; now if not given.
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// When it ends; if not given, when the lane is resumed.
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
    },
    /// Lets a paused lane go on, now or at a time.
    Resume {
        /// The lane's name.
        name: String,
        /// What the next person should know.
        #[arg(long)]
        reason: String,
        /// When it goes on; now if not given.
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
    },
    /// Refusal storms: lanes that paused themselves because their bank refused everything.
    Storms {
        /// How many at most, up to 1000; 100 if not given.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Places everything that waits anew, or only says what that would do.
    Replan {
        /// The lane's name.
        name: String,
        /// What the next person should know; not needed with --preview.
        #[arg(long, required_unless_present = "preview")]
        reason: Option<String>,
        /// Says what it would do, and changes nothing.
        #[arg(long)]
        preview: bool,
    },
    /// When an imagined feed would run; without --count: what the real queue would do.
    Forecast(Imagined),
    /// How full the next windows are.
    Windows {
        /// The lane's name.
        name: String,
        /// How many windows.
        #[arg(long, default_value_t = 20)]
        limit: u32,
        /// The picture instead of the table.
        #[arg(long)]
        svg: bool,
    },
    /// The proof of a day's rate.
    Certificate {
        /// The lane's name.
        name: String,
        #[command(flatten)]
        day: Day,
        /// The picture instead of the text.
        #[arg(long)]
        svg: bool,
    },
    /// Counts the windows anew from the slots in them.
    Reconcile {
        /// The lane's name.
        name: String,
    },
    /// Every version, newest first.
    History {
        /// The lane's name.
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Imagined {
    /// The lane's name.
    name: String,
    /// How many items the feed has; without it the real queue is looked at.
    #[arg(long)]
    count: Option<u64>,
    /// When the feed falls due; now if not given.
    #[arg(long, value_name = "TIME", requires = "count")]
    at: Option<String>,
    /// By when they should have run: how many would be late, and which limit would be enough.
    #[arg(long, value_name = "TIME", requires = "count")]
    deadline: Option<String>,
    /// As if the lane were changed first.
    #[command(flatten)]
    change: Change,
    /// As if the lane were paused from now until then.
    #[arg(long, value_name = "TIME")]
    pause_until: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Change {
    /// The plan: so many items per window.
    #[arg(long)]
    max_per_window: Option<u32>,
    /// How long a window is.
    #[arg(long)]
    window_size_secs: Option<u32>,
    /// The hard limit: no second has more sends than this.
    #[arg(long)]
    max_per_second: Option<f64>,
    /// How slots lie within a window.
    #[arg(long)]
    spread: Option<Spread>,
    /// The calendar that the lane keeps to; "none" takes it off.
    #[arg(long)]
    calendar: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Spread {
    /// Evenly.
    Even,
    /// At random.
    Jitter,
}

impl Change {
    fn fields(&self) -> Map<String, Value> {
        let spread = self.spread.map(|spread| match spread {
            Spread::Even => "even",
            Spread::Jitter => "jitter",
        });
        let given = [
            ("maxPerWindow", self.max_per_window.map(Value::from)),
            ("windowSizeSecs", self.window_size_secs.map(Value::from)),
            ("maxPerSecond", self.max_per_second.map(Value::from)),
            ("spread", spread.map(Value::from)),
            ("calendar", self.calendar.as_deref().map(calendar)),
        ];
        let given = given.into_iter();
        given
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    }
}

fn calendar(name: &str) -> Value {
    match name {
        "none" => Value::Null,
        name => json!(name),
    }
}

/// What to ask the service, and how to show its answer.
enum Asked {
    Get(String, View),
    Post(String, Value, View),
    /// Shown as it comes.
    Text(String),
}

type View = fn(&Value) -> String;

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    match command.asked(shown.json) {
        Asked::Get(path, view) => shown.show(&client.get(&path).await?, view),
        Asked::Post(path, body, view) => {
            shown.show(&client.send(Method::POST, &path, &body).await?, view);
        }
        Asked::Text(path) => Shown::print(&client.get_text(&path).await?),
    }
    Ok(())
}

impl Command {
    fn asked(self, json: bool) -> Asked {
        match self {
            Self::List => Asked::Get("/admin/rate-limit/config".into(), views::list),
            Self::Set {
                name,
                change,
                reason,
                confirm,
            } => set(&name, &change, &reason, confirm),
            Self::Pause {
                name,
                reason,
                from,
                until,
            } => {
                let body = json!({"reason": reason, "from": from, "until": until});
                Asked::Post(of(&name, "pause"), body, views::lane)
            }
            Self::Resume { name, reason, at } => {
                let body = json!({"reason": reason, "at": at});
                Asked::Post(of(&name, "resume"), body, views::lane)
            }
            Self::Storms { limit } => {
                let query = query(&[("limit", limit.map(|limit| limit.to_string()))]);
                Asked::Get(format!("/admin/storms{query}"), views::storms)
            }
            Self::Replan {
                name,
                reason,
                preview,
            } => {
                let body = json!({"reason": reason.unwrap_or_default(), "preview": preview});
                Asked::Post(of(&name, "replan"), body, views::shift)
            }
            Self::Forecast(imagined) => imagined.asked(),
            Self::Windows { name, limit, svg } => {
                let query = format!("?configName={}&limit={limit}", quoted(&name));
                picture(
                    format!("/admin/rate-limit/windows{query}"),
                    svg,
                    views::windows,
                )
            }
            Self::Certificate { name, day, svg } => {
                let query = format!("{}&lane={}", day.query(), quoted(&name));
                let path = format!("/admin/rate-limit/certificate{query}");
                if svg || json {
                    picture(path, svg, |_| String::new())
                } else {
                    Asked::Text(format!("{path}&format=text"))
                }
            }
            Self::Reconcile { name } => {
                Asked::Post(of(&name, "reconcile"), json!({}), views::recounted)
            }
            Self::History { name } => Asked::Get(of(&name, "history"), history),
        }
    }
}

fn of(lane: &str, what: &str) -> String {
    format!("/admin/lanes/{}/{what}", quoted(lane))
}

fn picture(path: String, svg: bool, view: View) -> Asked {
    if svg {
        Asked::Text(format!("{path}&format=svg"))
    } else {
        Asked::Get(path, view)
    }
}

fn set(name: &str, change: &Change, reason: &str, confirm: bool) -> Asked {
    let mut body = change.fields();
    body.insert("configName".into(), json!(name));
    body.insert("reason".into(), json!(reason));
    body.insert("confirm".into(), json!(confirm));
    Asked::Post("/admin/rate-limit/config".into(), body.into(), views::lane)
}

impl Imagined {
    fn asked(self) -> Asked {
        let mut change = self.change.fields();
        if let Some(until) = self.pause_until {
            change.insert("pauseUntil".into(), json!(until));
        }
        let body = json!({
            "configName": self.name, "count": self.count, "executeAt": self.at,
            "deadline": self.deadline, "change": change,
        });
        Asked::Post("/admin/rate-limit/forecast".into(), body, views::forecast)
    }
}
