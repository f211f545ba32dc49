//! `tollgate lanes …`.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Map, Value, json};
use tollgate_client::contract::ReplanRequest;
use tollgate_client::{Client, quoted};

use super::Shown;
use super::accounts::Day;
use super::lane_views as views;
use super::table::history;

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
    /// Change limit, plan or calendar and assign new slots, in one step. Without --digest, shows a preview.
    ///
    /// Without new settings, the preview proposes settings that would meet every deadline.
    Adjust(Adjusted),
    /// Forecast when --count hypothetical items would run; without --count, when the waiting items will run.
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
    /// Number of hypothetical items. Without it, the forecast is for the waiting items.
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
    /// Digest of the preview to apply.
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
    fn body(self) -> Map<String, Value> {
        let mut body = self.change.fields();
        match self.digest {
            None => drop(body.insert("dryRun".into(), json!(true))),
            Some(digest) => {
                body.insert("digest".into(), json!(digest));
                body.insert("reason".into(), json!(self.reason));
                body.insert("confirm".into(), json!(self.confirm));
            }
        }
        body
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

/// As a person typed it: the service judges the numbers.
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

/// Times and numbers are sent as a person typed them: the service says what is wrong with them.
pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    let lanes = client.lanes();
    match command {
        Command::List => shown.show(&lanes.list().await?, |all| views::list(all)),
        Command::Storms { limit } => shown.show(&lanes.storms(limit).await?, views::storms),
        Command::Replan {
            name,
            reason,
            preview,
        } => {
            let reason = reason.unwrap_or_default();
            let request = ReplanRequest { reason, preview };
            shown.show(&lanes.replan(&name, &request).await?, views::replan);
        }
        Command::Reconcile { name } => {
            shown.show(&lanes.reconcile(&name).await?, views::recounted);
        }
        Command::History { name } => {
            shown.show(&lanes.history(&name).await?, |all| history(all));
        }
        Command::Windows { name, limit, svg } => windows(client, shown, &name, limit, svg).await?,
        Command::Certificate { name, day, svg } => {
            certificate(client, shown, &name, day, svg).await?;
        }
        Command::Set {
            name,
            change,
            reason,
            confirm,
        } => {
            let body = set(&name, &change, &reason, confirm);
            let lane = client.post("/admin/rate-limit/config", &body).await?;
            shown.show(&lane, views::lane);
        }
        Command::Pause {
            name,
            reason,
            from,
            until,
        } => {
            let body = json!({"reason": reason, "from": from, "until": until});
            let lane = client.post(&path(&name, "pause"), &body).await?;
            shown.show(&lane, views::lane);
        }
        Command::Resume { name, reason, at } => {
            let body = json!({"reason": reason, "at": at});
            let lane = client.post(&path(&name, "resume"), &body).await?;
            shown.show(&lane, views::lane);
        }
        Command::Adjust(adjusted) => {
            let path = path(&adjusted.name, "adjust");
            shown.show(
                &client.post(&path, &adjusted.body()).await?,
                views::adjusted,
            );
        }
        Command::Forecast(imagined) => {
            let path = "/admin/rate-limit/forecast";
            shown.show(&client.post(path, &imagined.body()).await?, views::forecast);
        }
    }
    Ok(())
}

async fn windows(
    client: &Client,
    shown: &Shown,
    lane: &str,
    limit: u32,
    svg: bool,
) -> anyhow::Result<()> {
    let (lanes, limit) = (client.lanes(), Some(limit));
    if svg {
        Shown::print(&lanes.windows_svg(lane, limit).await?);
    } else {
        let windows = lanes.windows(lane, limit).await?;
        shown.show(&windows, |all| views::windows(all));
    }
    Ok(())
}

async fn certificate(
    client: &Client,
    shown: &Shown,
    lane: &str,
    day: Day,
    svg: bool,
) -> anyhow::Result<()> {
    let (lanes, day) = (client.lanes(), day.into());
    if svg {
        Shown::print(&lanes.certificate_svg(lane, &day).await?);
    } else if shown.json {
        let certificate = lanes.certificate(lane, &day).await?;
        shown.show(&certificate, |_| String::new());
    } else {
        Shown::print(&lanes.certificate_text(lane, &day).await?);
    }
    Ok(())
}

fn set(name: &str, change: &Change, reason: &str, confirm: bool) -> Map<String, Value> {
    let mut body = change.fields();
    body.insert("configName".into(), json!(name));
    body.insert("reason".into(), json!(reason));
    body.insert("confirm".into(), json!(confirm));
    body
}

fn path(lane: &str, what: &str) -> String {
    format!("/admin/lanes/{}/{what}", quoted(lane))
}

impl Imagined {
    fn body(self) -> Value {
        let mut change = self.change.fields();
        if let Some(until) = self.pause_until {
            change.insert("pauseUntil".into(), json!(until));
        }
        json!({
            "configName": self.name, "count": self.count, "executeAt": self.at,
            "deadline": self.deadline, "change": change,
        })
    }
}
