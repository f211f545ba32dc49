//! `tollgate lanes …`.

use clap::{Args, Subcommand, ValueEnum};
use http::Method;
use serde_json::{Map, Value, json};

use super::Shown;
use super::accounts::Day;
use super::calendars::history;
use super::client::{Client, quoted};
use super::table::{cell, fields, rows, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// All lanes: their limits, and whether they send now.
    List,
    /// Changes a lane, or creates it. What is left out keeps its value.
    Set {
        name: String,
        #[command(flatten)]
        change: Change,
        #[arg(long)]
        reason: String,
        /// Even if it strands what waits.
        #[arg(long)]
        confirm: bool,
    },
    /// Stops a lane's sends: now or at a time, until a time or until it is resumed.
    Pause {
        name: String,
        #[arg(long)]
        reason: String,
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
    },
    /// Lets a paused lane go on, now or at a time.
    Resume {
        name: String,
        #[arg(long)]
        reason: String,
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
    },
    /// Places everything that waits anew, or only says what that would do.
    Replan {
        name: String,
        #[arg(long, required_unless_present = "preview")]
        reason: Option<String>,
        #[arg(long)]
        preview: bool,
    },
    /// When an imagined feed would run; without --count: what the real queue would do.
    Forecast {
        name: String,
        #[arg(long)]
        count: Option<u64>,
        /// When the feed falls due; now if not given.
        #[arg(long, value_name = "TIME", requires = "count")]
        at: Option<String>,
        #[arg(long, value_name = "TIME", requires = "count")]
        deadline: Option<String>,
        /// As if the lane were changed first.
        #[command(flatten)]
        change: Change,
        /// As if the lane were paused from now until then.
        #[arg(long, value_name = "TIME")]
        pause_until: Option<String>,
    },
    /// How full the next windows are.
    Windows {
        name: String,
        #[arg(long, default_value_t = 20)]
        limit: u32,
        /// The picture instead of the table.
        #[arg(long)]
        svg: bool,
    },
    /// The proof of a day's rate.
    Certificate {
        name: String,
        #[command(flatten)]
        day: Day,
        /// The picture instead of the text.
        #[arg(long)]
        svg: bool,
    },
    /// Counts the windows anew from the slots in them.
    Reconcile { name: String },
    /// Every version, newest first.
    History { name: String },
}

#[derive(Debug, Args)]
pub(crate) struct Change {
    /// The plan: so many items per window.
    #[arg(long)]
    max_per_window: Option<u32>,
    #[arg(long)]
    window_size_secs: Option<u32>,
    /// The hard limit.
    #[arg(long)]
    max_per_second: Option<f64>,
    #[arg(long)]
    spread: Option<Spread>,
    /// The calendar that the lane keeps to; "none" takes it off.
    #[arg(long)]
    calendar: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Spread {
    Even,
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

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    let at = |name: &str, verb: &str| format!("/admin/lanes/{}/{verb}", quoted(name));
    match command {
        Command::List => {
            let answer = client.get("/admin/rate-limit/config").await?;
            shown.show(&answer, list);
        }
        Command::Set {
            name,
            change,
            reason,
            confirm,
        } => {
            let mut body = change.fields();
            body.insert("configName".into(), json!(name));
            body.insert("reason".into(), json!(reason));
            body.insert("confirm".into(), json!(confirm));
            let answer = client
                .send(Method::POST, "/admin/rate-limit/config", &body.into())
                .await?;
            shown.show(&answer, lane);
        }
        Command::Pause {
            name,
            reason,
            from,
            until,
        } => {
            let body = json!({"reason": reason, "from": from, "until": until});
            shown.show(
                &client
                    .send(Method::POST, &at(&name, "pause"), &body)
                    .await?,
                lane,
            );
        }
        Command::Resume {
            name,
            reason,
            at: when,
        } => {
            let body = json!({"reason": reason, "at": when});
            shown.show(
                &client
                    .send(Method::POST, &at(&name, "resume"), &body)
                    .await?,
                lane,
            );
        }
        Command::Replan {
            name,
            reason,
            preview,
        } => {
            let body = json!({"reason": reason.unwrap_or_default(), "preview": preview});
            shown.show(
                &client
                    .send(Method::POST, &at(&name, "replan"), &body)
                    .await?,
                shift,
            );
        }
        Command::Forecast {
            name,
            count,
            at,
            deadline,
            change,
            pause_until,
        } => {
            let mut imagined = change.fields();
            if let Some(until) = pause_until {
                imagined.insert("pauseUntil".into(), json!(until));
            }
            let body = json!({"configName": name, "count": count, "executeAt": at,
                              "deadline": deadline, "change": imagined});
            let answer = client
                .send(Method::POST, "/admin/rate-limit/forecast", &body)
                .await?;
            shown.show(&answer, forecast);
        }
        Command::Windows { name, limit, svg } => {
            let path = format!(
                "/admin/rate-limit/windows?configName={}&limit={limit}",
                quoted(&name)
            );
            if svg {
                Shown::print(&client.get_text(&format!("{path}&format=svg")).await?);
            } else {
                shown.show(&client.get(&path).await?, windows);
            }
        }
        Command::Certificate { name, day, svg } => {
            let path = format!(
                "/admin/rate-limit/certificate{}&lane={}",
                day.query(),
                quoted(&name)
            );
            match (svg, shown.json) {
                (true, _) => Shown::print(&client.get_text(&format!("{path}&format=svg")).await?),
                (_, false) => Shown::print(&client.get_text(&format!("{path}&format=text")).await?),
                (_, true) => shown.show(&client.get(&path).await?, |_| String::new()),
            }
        }
        Command::Reconcile { name } => {
            let answer = client
                .send(Method::POST, &at(&name, "reconcile"), &json!({}))
                .await?;
            shown.show(&answer, |answer| {
                fields(
                    answer,
                    &[
                        ("windows corrected", "windowsCorrected"),
                        ("room that came back", "roomReturned"),
                        ("slots not counted before", "slotsNotCounted"),
                    ],
                )
            });
        }
        Command::History { name } => {
            shown.show(&client.get(&at(&name, "history")).await?, history);
        }
    }
    Ok(())
}

fn list(answer: &Value) -> String {
    let header = [
        "lane", "hard/s", "plan", "window s", "calendar", "version", "state",
    ];
    let rows: Vec<Vec<String>> = answer
        .as_array()
        .into_iter()
        .flatten()
        .map(|lane| {
            let plain = [
                "configName",
                "maxPerSecond",
                "maxPerWindow",
                "windowSizeSecs",
                "calendar",
                "version",
            ];
            let mut row: Vec<String> = plain.iter().map(|field| cell(&lane[*field])).collect();
            row.push(state(lane));
            row
        })
        .collect();
    table(&header, &rows)
}

fn state(lane: &Value) -> String {
    let until = lane["opensAt"].as_str().map(|t| format!(", opens {t}"));
    match lane["closedBecause"].as_str() {
        None => "open".to_owned(),
        Some(why) => format!("{why}{}", until.unwrap_or_default()),
    }
}

fn lane(answer: &Value) -> String {
    let named = [
        ("lane", "configName"),
        ("hard limit", "maxPerSecond"),
        ("plan", "maxPerWindow"),
        ("window seconds", "windowSizeSecs"),
        ("spread", "spread"),
        ("calendar", "calendar"),
        ("version", "version"),
        ("in force from", "effectiveAt"),
    ];
    format!(
        "{}state           {}",
        fields(answer, &named),
        state(answer)
    )
}

fn shift(answer: &Value) -> String {
    let named = [
        ("waiting", "waiting"),
        ("earlier", "earlier"),
        ("later", "later"),
        ("finish before", "finishBefore"),
        ("finish after", "finishAfter"),
        ("deadlines won", "deadlinesWon"),
        ("deadlines lost", "deadlinesLost"),
        ("deadlines missed", "missedAfter"),
    ];
    let note = match answer["preview"].as_bool() {
        Some(true) => "(a preview: nothing was changed)",
        _ => "",
    };
    format!("{}{note}", fields(answer, &named))
}

fn forecast(answer: &Value) -> String {
    cell(&answer["verdict"])
}

fn windows(answer: &Value) -> String {
    let fields = ["windowStart", "slotCount", "capacity"];
    table(&["window", "slots", "capacity"], &rows(answer, &fields))
}
