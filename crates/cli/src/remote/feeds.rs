//! `tollgate feeds …`: topics whose records are imported.

use std::fmt::Write;

use clap::Subcommand;
use tollgate_client::Client;
use tollgate_client::contract::{Feed, FeedList, FeedSeek};

use super::Shown;
use super::table::{cell, row, table};

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
    let feeds = client.feeds();
    match command {
        Command::List => shown.show(&feeds.list().await?, list),
        Command::Pause { name, reason } => {
            let answer = feeds.pause(&name, &reason).await?;
            shown.show(&answer, |_| format!("feed {name} is paused"));
        }
        Command::Resume { name, reason } => {
            let answer = feeds.resume(&name, &reason).await?;
            shown.show(&answer, |_| format!("feed {name} is read again"));
        }
        Command::Seek {
            name,
            partition,
            offset,
            reason,
        } => {
            let seek = FeedSeek {
                partition,
                offset,
                reason,
            };
            shown.show(&feeds.seek(&name, &seek).await?, |sought| {
                let effect = &sought.effect;
                format!("{effect} Resume the feed when you are done: tollgate feeds resume {name}")
            });
        }
    }
    Ok(())
}

fn list(answer: &FeedList) -> String {
    if answer.feeds.is_empty() {
        return "no feeds".to_owned();
    }
    answer.feeds.iter().map(feed).collect::<Vec<_>>().join("\n")
}

/// One feed: a line about it, what is wrong with it, and its partitions.
fn feed(feed: &Feed) -> String {
    let state = if feed.paused {
        "paused"
    } else if feed.trouble.is_some() {
        "in trouble"
    } else {
        "running"
    };
    let mut text = format!(
        "{} ({}) is {state}: {} records read, {} left, {} dead letters\n",
        feed.name, feed.topic, feed.records, feed.lag, feed.dead_letters,
    );
    // Writing to a string does not fail.
    if let Some(why) = &feed.paused_why {
        let _ = writeln!(text, "  paused by {}: {why}", cell(&feed.paused_by));
    }
    if let Some(trouble) = &feed.trouble {
        let _ = writeln!(text, "  {trouble}. Tollgate keeps trying.");
    }
    if feed.partitions.is_empty() {
        return text;
    }
    let header = ["  PARTITION", "POSITION", "END", "WAITING", "READ BY"];
    let rows: Vec<Vec<String>> = feed
        .partitions
        .iter()
        .map(|it| {
            row(&[
                &it.partition,
                &it.position,
                &it.log_end,
                &it.waiting_chunks,
                &it.owner,
            ])
        })
        .collect();
    text + &table(&header, &rows)
}
