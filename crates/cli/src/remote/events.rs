//! `tollgate events …`: moves of payments and invoices that are published.

use std::fmt::Write;

use clap::Subcommand;
use tollgate_client::Client;
use tollgate_client::contract::Events;

use super::Shown;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show whether events are on, and how many have not been published yet.
    Show,
    /// Turn events off and drop those that have not been published.
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
        Command::Show => shown.show(&client.events().get().await?, state),
        Command::Off { reason } => {
            shown.show(&client.events().turn_off(&reason).await?, |off| {
                let dropped = off.dropped;
                format!("events are off; {dropped} unpublished events were dropped")
            });
        }
    }
    Ok(())
}

fn state(events: &Events) -> String {
    if !events.on {
        return match &events.trouble {
            None => "events are off".to_owned(),
            Some(why) => format!("events are off\n  {why}"),
        };
    }
    let (published, backlog) = (events.published, events.backlog);
    let more = if events.backlog_is_capped {
        " or more"
    } else {
        ""
    };
    let mut text = format!("events are on: {published} published, {backlog}{more} waiting");
    // Writing to a string does not fail.
    if let Some(oldest) = events.oldest_at {
        let _ = write!(text, ", the oldest since {oldest}");
    }
    if events.owner.is_none() {
        text += "\n  no process publishes them";
    }
    for sentence in events.trouble.iter().chain(&events.difference) {
        let _ = write!(text, "\n  {sentence}");
    }
    text
}
