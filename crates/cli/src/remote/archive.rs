//! `tollgate archive …`: days of ended items, in the database and in files.

use std::fmt::Write as _;

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::table::{cell, more, query, rows, source, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Do now what the service does by itself: move ended items, export closed days, drop days older than archive_days.
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
    /// Show sizes, days without a file, and what is wrong.
    Status,
    /// Read the files of a day whole and compare them with their manifests and with the database.
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
    /// Only payments with this account as debtor or creditor, complete.
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
    fn path(self) -> String {
        let query = query(&[
            ("itemType", self.day.item_type),
            ("status", self.status),
            ("account", self.account),
            ("reference", self.reference),
            ("after", self.after),
            ("limit", self.limit.map(|limit| limit.to_string())),
        ]);
        format!("/admin/archive/{}/items{query}", quoted(&self.day.day))
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

impl Day {
    fn path(&self, act: &str) -> String {
        let query = query(&[("itemType", self.item_type.clone())]);
        format!("/admin/archive/{}{act}{query}", quoted(&self.day))
    }
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run { reason } => {
            let body = json!({"reason": reason});
            let answer = client
                .send(Method::POST, "/admin/archive/run", &body)
                .await?;
            shown.show(&answer, done);
        }
        Command::List {
            item_type,
            after,
            limit,
        } => {
            let query = query(&[
                ("itemType", item_type),
                ("after", after),
                ("limit", limit.map(|limit| limit.to_string())),
            ]);
            shown.show(&client.get(&format!("/admin/archive{query}")).await?, list);
        }
        Command::Show { day } => shown.show(&client.get(&day.path("")).await?, days),
        Command::Items { items } => {
            shown.show(&client.get(&items.path()).await?, items_listed);
        }
        Command::Audit { day, after, limit } => {
            let query = query(&[
                ("itemType", day.item_type),
                ("after", after),
                ("limit", limit.map(|limit| limit.to_string())),
            ]);
            let path = format!("/admin/archive/{}/audit{query}", quoted(&day.day));
            shown.show(&client.get(&path).await?, entries);
        }
        Command::Status => shown.show(&client.get("/admin/archive/status").await?, status),
        Command::Verify { day } => {
            let (path, body) = (day.path("/verify"), json!({}));
            shown.show(&client.send(Method::POST, &path, &body).await?, verified);
        }
        Command::Export { day, reason } => {
            let (path, body) = (day.path("/export"), json!({"reason": reason}));
            shown.show(&client.send(Method::POST, &path, &body).await?, days);
        }
        Command::Restore { day, reason } => {
            let (path, body) = (day.path("/restore"), json!({"reason": reason}));
            shown.show(&client.send(Method::POST, &path, &body).await?, days);
        }
    }
    Ok(())
}

fn list(answer: &Value) -> String {
    let named = ["day", "itemType", "state", "count", "file"];
    let rows = rows(&answer["days"], &named);
    if rows.is_empty() {
        return "the archive is empty".to_owned();
    }
    let header = ["day", "type", "state", "items", "file"];
    table(&header, &rows) + &troubles(&answer["days"]) + &more(&answer["next"])
}

/// A line for each day that is not in order.
fn troubles(days: &Value) -> String {
    let days = days.as_array().into_iter().flatten();
    let troubled = days.filter_map(|day| day["trouble"].as_str());
    troubled.fold(String::new(), |text, why| format!("{text}{why}\n"))
}

fn items_listed(answer: &Value) -> String {
    let named = [
        "id",
        "status",
        "amount",
        "currency",
        "lane",
        "createdAt",
        "finishedAt",
    ];
    let header = [
        "item", "status", "amount", "currency", "lane", "accepted", "ended",
    ];
    let rows = rows(&answer["items"], &named);
    let from = source(&answer["source"]);
    if rows.is_empty() && answer["next"].is_null() {
        return format!("no items, from {from}");
    }
    format!("{}from {from}\n", table(&header, &rows)) + &more(&answer["next"])
}

fn entries(answer: &Value) -> String {
    let named = ["at", "actor", "action", "item", "detail"];
    let rows = rows(&answer["entries"], &named);
    let from = source(&answer["source"]);
    if rows.is_empty() && answer["next"].is_null() {
        return format!("no audit entries, from {from}");
    }
    format!("{}from {from}\n", table(&named, &rows)) + &more(&answer["next"])
}

fn status(answer: &Value) -> String {
    let named = [
        "itemType",
        "hotDays",
        "oldestHot",
        "days",
        "daysToExport",
        "oldestToExport",
    ];
    let header = [
        "type",
        "hot days",
        "oldest hot item",
        "days",
        "to export",
        "the oldest",
    ];
    let mut text = table(&header, &rows(&answer["types"], &named));
    let parts = rows(&answer["parts"], &["name", "bytes"]);
    let _ = write!(text, "\n{}", table(&["what", "bytes"], &parts));
    for trouble in answer["troubles"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "{}", cell(&trouble["what"]));
    }
    text
}

fn days(answer: &Value) -> String {
    let days = answer["days"].as_array().into_iter().flatten();
    days.map(day).collect::<Vec<_>>().join("\n")
}

fn day(view: &Value) -> String {
    let (day, item_type) = (cell(&view["day"]), cell(&view["itemType"]));
    let (state, count) = (cell(&view["state"]), cell(&view["count"]));
    let mut text = format!("{day} {item_type}: {count} items, {state}\n");
    for (title, field) in [
        ("file", "file"),
        ("sha256", "sha256"),
        ("exported", "exportedAt"),
        ("dropped", "droppedAt"),
        ("restored", "restoredAt"),
        ("trouble", "trouble"),
    ] {
        if !view[field].is_null() {
            let _ = writeln!(text, "{title:<8}  {}", cell(&view[field]));
        }
    }
    let named = ["status", "currency", "count", "amount"];
    let header = ["status", "currency", "items", "amount"];
    text + &table(&header, &rows(&view["totals"], &named))
}

fn verified(answer: &Value) -> String {
    let files = answer["files"].as_array().into_iter().flatten();
    let one = |file: &Value| {
        let with = match file["comparedWithDatabase"].as_bool() {
            Some(true) => "its manifest and the database",
            Some(false) | None => "its manifest",
        };
        let (name, lines) = (cell(&file["file"]), cell(&file["lines"]));
        format!("{name}: {lines} lines, equal to {with}")
    };
    files.map(one).collect::<Vec<_>>().join("\n")
}

fn done(answer: &Value) -> String {
    let count = |field: &str| cell(&answer[field]);
    let mut text = format!(
        "{} items moved, {} days exported, {} days dropped\n",
        count("moved"),
        count("exported"),
        count("dropped")
    );
    for trouble in answer["troubles"].as_array().into_iter().flatten() {
        let _ = writeln!(text, "{}", cell(trouble));
    }
    text
}
