//! `tollgate archive …`: days of ended items, in the database and in files.

use std::process::ExitCode;

use clap::Subcommand;
use tollgate_client::{ArchiveDay, ArchiveQuery, ArchivedItemQuery, Client};

use super::Shown;
use super::archive_views::{days, done, entries, items_listed, list, status, verified};
use super::status::NEEDS_A_PERSON;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an archive round now: move ended items, export closed days, drop days older than archive_days. Exits with 3 if
    /// it finds a day with a problem.
    Run {
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// List the days of the archive, oldest first.
    List {
        /// PAYMENT, INVOICE or NOTIFICATION. Default: all.
        #[arg(long = "type", value_name = "TYPE")]
        item_type: Option<String>,
        /// Next page: days after this one.
        #[arg(long, value_name = "DAY")]
        after: Option<String>,
        /// Page size in days. Default: 100, maximum: 1000.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Show a day: where it is, its totals, its files and their digests.
    Show {
        #[command(flatten)]
        day: Day,
    },
    /// List the items of a day, in the order of their ids.
    Items {
        #[command(flatten)]
        items: ItemsOfDay,
    },
    /// List the audit entries about the items of a day, item by item.
    Audit {
        #[command(flatten)]
        day: Day,
        /// Next page: items after this id.
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        /// Page size in items. Default: 100, maximum: 1000.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Show sizes, days without a file, and problems.
    Status,
    /// Read the complete files of a day and compare them with their manifests and with the database.
    Verify {
        #[command(flatten)]
        day: Day,
    },
    /// Export a day to the folder retention.export_dir.
    Export {
        #[command(flatten)]
        day: Day,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Restore a day from its files into the database.
    Restore {
        #[command(flatten)]
        day: Day,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct ItemsOfDay {
    #[command(flatten)]
    day: Day,
    /// Only items that ended with this status, such as PROCESSING.
    #[arg(long)]
    status: Option<String>,
    /// Only payments to or from this account. Give the complete account number.
    #[arg(long)]
    account: Option<String>,
    /// Only payments with this reference.
    #[arg(long)]
    reference: Option<String>,
    /// Next page: items after this id.
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// Page size. Default: 100, maximum: 1000.
    #[arg(long)]
    limit: Option<u32>,
}

impl ItemsOfDay {
    fn query(self) -> ArchivedItemQuery {
        ArchivedItemQuery {
            item_type: self.day.item_type,
            status: self.status,
            account: self.account,
            reference: self.reference,
            after: self.after,
            limit: self.limit,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Day {
    /// UTC day on which the items ended, such as 2026-11-18.
    day: String,
    /// PAYMENT, INVOICE or NOTIFICATION. Default: all.
    #[arg(long = "type", value_name = "TYPE")]
    item_type: Option<String>,
}

impl From<Day> for ArchiveDay {
    fn from(day: Day) -> Self {
        let Day { day, item_type } = day;
        Self { day, item_type }
    }
}

pub(super) async fn run(
    client: &Client,
    shown: &Shown,
    command: Command,
) -> anyhow::Result<ExitCode> {
    let archive = client.archive();
    match command {
        Command::Run { reason } => {
            let round = archive.run(&reason).await?;
            shown.show(&round, done);
            if !round.troubles.is_empty() {
                return Ok(ExitCode::from(NEEDS_A_PERSON));
            }
        }
        Command::List {
            item_type,
            after,
            limit,
        } => {
            let page = ArchiveQuery {
                item_type,
                after,
                limit,
            };
            shown.show(&archive.list(&page).await?, list);
        }
        Command::Show { day } => shown.show(&archive.get(&day.into()).await?, days),
        Command::Items { items } => {
            let day = items.day.day.clone();
            shown.show(&archive.items(&day, &items.query()).await?, items_listed);
        }
        Command::Audit { day, after, limit } => {
            let page = ArchiveQuery {
                item_type: day.item_type,
                after,
                limit,
            };
            shown.show(&archive.audit(&day.day, &page).await?, entries);
        }
        Command::Status => shown.show(&archive.status().await?, status),
        Command::Verify { day } => shown.show(&archive.verify(&day.into()).await?, verified),
        Command::Export { day, reason } => {
            shown.show(&archive.export(&day.into(), &reason).await?, days);
        }
        Command::Restore { day, reason } => {
            shown.show(&archive.restore(&day.into(), &reason).await?, days);
        }
    }
    Ok(ExitCode::SUCCESS)
}
