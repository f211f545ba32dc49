//! `tollgate feeds …`: topics whose records are imported.

use std::fmt::Write;

use clap::Subcommand;
use tollgate_client::Client;
use tollgate_client::contract::{Feed, FeedList, FeedSeek};

use super::Shown;
use super::table::{cell, row, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List all feeds with their positions and the number of unread records.
    List,
    /// Pause a feed. Records that were already imported are not affected.
    Pause {
        /// Name of the feed.
        name: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Resume a paused feed from its positions.
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
    /// Delete the positions of a feed that was removed from the configuration.
    ///
    /// The feed is no longer listed. If it is configured again, it starts at its `start` setting: with "earliest", records
    /// are read again, which is harmless; with "latest", earlier records are never read.
    Forget {
        /// Name of the feed.
        name: String,
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
            shown.show(&answer, |_| format!("feed {name} is resumed"));
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
        Command::Forget { name, reason } => {
            let answer = feeds.forget(&name, &reason).await?;
            shown.show(&answer, |forgotten| forgotten.effect.clone());
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
    } else if feed.unread_since.is_some() {
        "not read"
    } else if feed.trouble.is_some() {
        "in trouble"
    } else {
        "running"
    };
    let left = match (feed.paused, feed.unread_since) {
        (true, _) => "number of unread records unknown while paused".to_owned(),
        (false, Some(_)) => "number of unread records unknown".to_owned(),
        (false, None) => format!("{} unread", feed.lag),
    };
    let mut text = format!(
        "{} ({}) is {state}: {} records read, {left}, {} dead letters\n",
        feed.name, feed.topic, feed.records, feed.dead_letters,
    );
    // Writing to a string does not fail.
    if let Some(why) = &feed.paused_why {
        let _ = writeln!(text, "  paused by {}: {why}", cell(&feed.paused_by));
    }
    if let Some(since) = &feed.unread_since {
        let _ = writeln!(
            text,
            "  No process has read it since {since}. If it was removed from the configuration, forget it: tollgate feeds forget {} --reason \"…\"",
            feed.name
        );
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
