//! `tollgate feeds …`: topics whose records are imported.

use std::fmt::Write;

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::table::{cell, rows, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List all feeds with their positions and the records left to read.
    List,
    /// Stop reading a feed. What was imported goes on.
    Pause {
        /// Name of the feed.
        name: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Read a paused feed again, from its positions on.
    Resume {
        /// Name of the feed.
        name: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Move one partition of a paused feed.
    ///
    /// Moving back reads records again, which is harmless: records with a known id count as duplicates. Moving forward
    /// leaves a gap: the records in between are never read.
    Seek {
        /// Name of the feed.
        name: String,
        #[arg(long)]
        partition: u32,
        /// Offset of the next record to read.
        #[arg(long)]
        offset: u64,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    match command {
        Command::List => shown.show(&client.get("/admin/feeds").await?, list),
        Command::Pause { name, reason } => {
            let body = json!({"reason": reason});
            let answer = act(client, &name, "pause", &body).await?;
            shown.show(&answer, |_| format!("feed {name} is paused"));
        }
        Command::Resume { name, reason } => {
            let body = json!({"reason": reason});
            let answer = act(client, &name, "resume", &body).await?;
            shown.show(&answer, |_| format!("feed {name} is read again"));
        }
        Command::Seek {
            name,
            partition,
            offset,
            reason,
        } => {
            let body = json!({"partition": partition, "offset": offset, "reason": reason});
            let answer = act(client, &name, "seek", &body).await?;
            shown.show(&answer, |answer| {
                let effect = cell(&answer["effect"]);
                format!("{effect} Resume the feed when you are done: tollgate feeds resume {name}")
            });
        }
    }
    Ok(())
}

async fn act(client: &Client, name: &str, what: &str, body: &Value) -> anyhow::Result<Value> {
    let path = format!("/admin/feeds/{}/{what}", quoted(name));
    client.send(Method::POST, &path, body).await
}

fn list(answer: &Value) -> String {
    let feeds = answer["feeds"].as_array().map_or(&[][..], Vec::as_slice);
    if feeds.is_empty() {
        return "no feeds".to_owned();
    }
    feeds.iter().map(feed).collect::<Vec<_>>().join("\n")
}

/// One feed: a line about it, what is wrong with it, and its partitions.
fn feed(feed: &Value) -> String {
    let told = |field: &str| cell(&feed[field]);
    let state = if feed["paused"] == true {
        "paused"
    } else if feed["trouble"].is_string() {
        "in trouble"
    } else {
        "running"
    };
    let mut text = format!(
        "{} ({}) is {state}: {} records read, {} left, {} dead letters\n",
        told("name"),
        told("topic"),
        told("records"),
        told("lag"),
        told("deadLetters"),
    );
    // Writing to a string does not fail.
    if feed["pausedWhy"].is_string() {
        let (by, why) = (told("pausedBy"), told("pausedWhy"));
        let _ = writeln!(text, "  paused by {by}: {why}");
    }
    if feed["trouble"].is_string() {
        let _ = writeln!(text, "  {}. Tollgate keeps trying.", told("trouble"));
    }
    if feed["partitions"].as_array().is_none_or(Vec::is_empty) {
        return text;
    }
    let header = ["  PARTITION", "POSITION", "END", "WAITING", "READ BY"];
    let fields = ["partition", "position", "logEnd", "waitingChunks", "owner"];
    let rows = rows(&feed["partitions"], &fields);
    text + &table(&header, &rows)
}
