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
    /// List lanes with their limits and state.
    List,
    /// Create or change a lane. Values that are not given stay as they are.
    Set {
        /// Lane name.
        name: String,
        #[command(flatten)]
        change: Change,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
        /// Apply the change even if it leaves waiting items without a slot.
        #[arg(long)]
        confirm: bool,
    },
    /// Pause a lane, now or at a given time, until a given time or until it is resumed.
    Pause {
        /// Lane name.
        name: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
        /// Start of the pause, such as 2026-11-16T16:00:00-07:00. Default: now.
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// End of the pause. Default: until the lane is resumed.
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
    },
    /// Resume a paused lane, now or at a given time.
    Resume {
        /// Lane name.
        name: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
        /// Time of the resumption. Default: now.
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
    },
    /// List refusal storms: lanes paused automatically because their bank refused nearly every payment.
    Storms {
        /// Maximum number. Default: 100, maximum: 1000.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Assign new slots to all waiting items, or preview the effect.
    Replan {
        /// Lane name.
        name: String,
        /// Reason, recorded in the audit log; not needed with --preview.
        #[arg(long, required_unless_present = "preview")]
        reason: Option<String>,
        /// Show the effect without changing anything.
        #[arg(long)]
        preview: bool,
    },
    /// Change limit, plan or calendar and assign new slots, in one step. Without --digest: a preview.
    ///
    /// Without numbers, the preview proposes those that would meet every deadline.
    Adjust(Adjusted),
    /// Forecast when --count hypothetical items would run; without --count, when the real queue runs.
    Forecast(Imagined),
    /// Show how full the next windows are.
    Windows {
        /// Lane name.
        name: String,
        /// Number of windows.
        #[arg(long, default_value_t = 20)]
        limit: u32,
        /// Print an SVG image instead of the table.
        #[arg(long)]
        svg: bool,
    },
    /// Print the rate certificate of a day.
    Certificate {
        /// Lane name.
        name: String,
        #[command(flatten)]
        day: Day,
        /// Print an SVG image instead of text.
        #[arg(long)]
        svg: bool,
    },
    /// Recount the windows from the slots in them.
    Reconcile {
        /// Lane name.
        name: String,
    },
    /// List all versions, newest first.
    History {
        /// Lane name.
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Imagined {
    /// Lane name.
    name: String,
    /// Number of hypothetical items. Without it, the forecast is for the real queue.
    #[arg(long)]
    count: Option<u64>,
    /// Due time of the hypothetical items. Default: now.
    #[arg(long, value_name = "TIME", requires = "count")]
    at: Option<String>,
    /// Deadline of the hypothetical items. Shows how many would be late, and the limit that would suffice.
    #[arg(long, value_name = "TIME", requires = "count")]
    deadline: Option<String>,
    /// Hypothetical lane configuration.
    #[command(flatten)]
    change: Change,
    /// Hypothetical pause from now until this time.
    #[arg(long, value_name = "TIME")]
    pause_until: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Adjusted {
    /// Lane name.
    name: String,
    #[command(flatten)]
    change: Change,
    /// Digest of the preview: applies it.
    #[arg(long, requires = "reason")]
    digest: Option<String>,
    /// Reason, recorded in the audit log.
    #[arg(long)]
    reason: Option<String>,
    /// Apply the change even if it leaves waiting items without a slot.
    #[arg(long)]
    confirm: bool,
}

impl Adjusted {
    fn asked(self) -> LaneCall {
        let mut body = self.change.fields();
        match self.digest {
            None => drop(body.insert("dryRun".into(), json!(true))),
            Some(digest) => {
                body.insert("digest".into(), json!(digest));
                body.insert("reason".into(), json!(self.reason));
                body.insert("confirm".into(), json!(self.confirm));
            }
        }
        LaneCall::Post(of(&self.name, "adjust"), body.into(), views::adjusted)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Change {
    /// Plan: maximum number of items per window.
    #[arg(long)]
    max_per_window: Option<u32>,
    /// Length of a window in seconds.
    #[arg(long)]
    window_size_secs: Option<u32>,
    /// Hard limit: maximum number of sends in any second.
    #[arg(long)]
    max_per_second: Option<f64>,
    /// Distribution of slots within a window.
    #[arg(long)]
    spread: Option<Spread>,
    /// Calendar of the lane; "none" removes it.
    #[arg(long)]
    calendar: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Spread {
    /// Evenly spaced.
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
enum LaneCall {
    Get(String, View),
    Post(String, Value, View),
    /// Shown as it comes.
    Text(String),
}

type View = fn(&Value) -> String;

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    match command.asked(shown.json) {
        LaneCall::Get(path, view) => shown.show(&client.get(&path).await?, view),
        LaneCall::Post(path, body, view) => {
            shown.show(&client.send(Method::POST, &path, &body).await?, view);
        }
        LaneCall::Text(path) => Shown::print(&client.get_text(&path).await?),
    }
    Ok(())
}

impl Command {
    fn asked(self, json: bool) -> LaneCall {
        match self {
            Self::List => LaneCall::Get("/admin/rate-limit/config".into(), views::list),
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
                LaneCall::Post(of(&name, "pause"), body, views::lane)
            }
            Self::Resume { name, reason, at } => {
                let body = json!({"reason": reason, "at": at});
                LaneCall::Post(of(&name, "resume"), body, views::lane)
            }
            Self::Storms { limit } => {
                let query = query(&[("limit", limit.map(|limit| limit.to_string()))]);
                LaneCall::Get(format!("/admin/storms{query}"), views::storms)
            }
            Self::Replan {
                name,
                reason,
                preview,
            } => {
                let body = json!({"reason": reason.unwrap_or_default(), "preview": preview});
                LaneCall::Post(of(&name, "replan"), body, views::replan_effect)
            }
            Self::Adjust(adjusted) => adjusted.asked(),
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
                    LaneCall::Text(format!("{path}&format=text"))
                }
            }
            Self::Reconcile { name } => {
                LaneCall::Post(of(&name, "reconcile"), json!({}), views::recounted)
            }
            Self::History { name } => LaneCall::Get(of(&name, "history"), history),
        }
    }
}

fn of(lane: &str, what: &str) -> String {
    format!("/admin/lanes/{}/{what}", quoted(lane))
}

fn picture(path: String, svg: bool, view: View) -> LaneCall {
    if svg {
        LaneCall::Text(format!("{path}&format=svg"))
    } else {
        LaneCall::Get(path, view)
    }
}

fn set(name: &str, change: &Change, reason: &str, confirm: bool) -> LaneCall {
    let mut body = change.fields();
    body.insert("configName".into(), json!(name));
    body.insert("reason".into(), json!(reason));
    body.insert("confirm".into(), json!(confirm));
    LaneCall::Post("/admin/rate-limit/config".into(), body.into(), views::lane)
}

impl Imagined {
    fn asked(self) -> LaneCall {
        let mut change = self.change.fields();
        if let Some(until) = self.pause_until {
            change.insert("pauseUntil".into(), json!(until));
        }
        let body = json!({
            "configName": self.name, "count": self.count, "executeAt": self.at,
            "deadline": self.deadline, "change": change,
        });
        LaneCall::Post("/admin/rate-limit/forecast".into(), body, views::forecast)
    }
}
