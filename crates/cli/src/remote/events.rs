//! `tollgate events …`: moves of payments and invoices that are published.

use std::fmt::Write;

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::Shown;
use super::client::Client;
use super::table::cell;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show whether events are on, and how many are not published yet.
    Show,
    /// Turn events off and drop those that are not published.
    ///
    /// Remove `[events]` from the configuration of every process first: a process that starts with it turns events on.
    Off {
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Show => shown.show(&client.get("/admin/events").await?, state),
        Command::Off { reason } => {
            let body = json!({"reason": reason});
            let answer = client.send(Method::POST, "/admin/events/off", &body);
            shown.show(&answer.await?, |answer| {
                let dropped = cell(&answer["dropped"]);
                format!("events are off; {dropped} that were not published are dropped")
            });
        }
    }
    Ok(())
}

fn state(events: &Value) -> String {
    if events["on"] != true {
        return "events are off".to_owned();
    }
    let (published, backlog) = (cell(&events["published"]), cell(&events["backlog"]));
    let more = if events["backlogIsCapped"] == true {
        " or more"
    } else {
        ""
    };
    let mut text = format!("events are on: {published} published, {backlog}{more} waiting");
    if events["oldestAt"].is_string() {
        // Writing to a string does not fail.
        let _ = write!(text, ", the oldest since {}", cell(&events["oldestAt"]));
    }
    if events["owner"].is_null() {
        text += "\n  no process publishes them";
    }
    if events["trouble"].is_string() {
        let _ = write!(text, "\n  {}", cell(&events["trouble"]));
    }
    if events["difference"].is_string() {
        let _ = write!(text, "\n  {}", cell(&events["difference"]));
    }
    text
}
