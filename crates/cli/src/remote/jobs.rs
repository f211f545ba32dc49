//! `tollgate jobs …`: acts on many items.

use clap::Subcommand;
use http::Method;
use serde_json::{Map, Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::table::{cell, fields, more, query, rows, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what a job would do, and its digest.
    Preview {
        #[command(flatten)]
        wish: Box<Wish>,
    },
    /// Start a job that was previewed: the same act and conditions, with the digest of the preview.
    Start {
        #[command(flatten)]
        wish: Box<Wish>,
        /// Digest of the preview.
        #[arg(long)]
        digest: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// List jobs, newest first.
    List {
        /// Next page: the token that the previous page printed.
        #[arg(long, value_name = "TOKEN")]
        after: Option<String>,
        /// Page size. Default: 100, maximum: 1000.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Show a job, its progress, and the items it left out.
    Show {
        /// Job id.
        job: String,
    },
    /// List the results of a job, item by item.
    Items {
        /// Job id.
        job: String,
        /// Only items that were left out.
        #[arg(long)]
        left_out: bool,
        /// Next page: items after this position.
        #[arg(long, value_name = "NUMBER")]
        after: Option<u64>,
        /// Page size. Default: 100, maximum: 1000.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Stop a job. Items already done stay done; the rest is left unchanged.
    Stop {
        /// Job id.
        job: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
}

/// What to do, and to which items. All conditions must hold; at least one is required.
#[derive(Debug, clap::Args)]
pub(crate) struct Wish {
    /// What to do: cancel, release, reschedule, replay, reopen, or ask the banks about payments in doubt.
    act: String,
    /// For reschedule: the earliest time, such as 2026-11-16T16:00:00-07:00.
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Every item that the act applies to, with no other condition.
    #[arg(long)]
    all: bool,
    /// PAYMENT (default). `replay` also takes INVOICE and NOTIFICATION.
    #[arg(long = "type", value_name = "TYPE")]
    item_type: Option<String>,
    /// Items that are held.
    #[arg(long)]
    held: bool,
    /// Items whose deadline has passed and that have not ended.
    #[arg(long)]
    late: bool,
    /// Status, such as SCHEDULED.
    #[arg(long)]
    status: Option<String>,
    #[arg(long)]
    lane: Option<String>,
    #[arg(long)]
    gateway: Option<String>,
    /// Import id.
    #[arg(long, value_name = "ID")]
    import: Option<String>,
    /// Accepted at this time or later.
    #[arg(long, value_name = "TIME")]
    accepted_from: Option<String>,
    /// Accepted before this time.
    #[arg(long, value_name = "TIME")]
    accepted_to: Option<String>,
    /// Due at this time or later.
    #[arg(long, value_name = "TIME")]
    due_from: Option<String>,
    /// Due before this time.
    #[arg(long, value_name = "TIME")]
    due_to: Option<String>,
    /// Smallest amount; needs --currency.
    #[arg(long, value_name = "AMOUNT")]
    min_amount: Option<String>,
    /// Largest amount; needs --currency.
    #[arg(long, value_name = "AMOUNT")]
    max_amount: Option<String>,
    #[arg(long)]
    currency: Option<String>,
    /// Account of the debtor or the creditor, complete.
    #[arg(long)]
    account: Option<String>,
    #[arg(long)]
    reference: Option<String>,
    /// For reopen: payments that were refused in this refusal storm.
    #[arg(long, value_name = "NUMBER")]
    storm: Option<i64>,
}

impl Wish {
    fn body(self) -> Value {
        let mut filter = Map::new();
        let texts = [
            ("type", self.item_type),
            ("status", self.status),
            ("lane", self.lane),
            ("gateway", self.gateway),
            ("import", self.import),
            ("acceptedFrom", self.accepted_from),
            ("acceptedTo", self.accepted_to),
            ("dueFrom", self.due_from),
            ("dueTo", self.due_to),
            ("minAmount", self.min_amount),
            ("maxAmount", self.max_amount),
            ("currency", self.currency),
            ("account", self.account),
            ("reference", self.reference),
        ];
        for (name, text) in texts {
            filter.extend(text.map(|text| (name.to_owned(), json!(text))));
        }
        let flags = [("all", self.all), ("held", self.held), ("late", self.late)];
        for (name, _) in flags.into_iter().filter(|(_, is_set)| *is_set) {
            filter.insert(name.to_owned(), json!(true));
        }
        filter.extend(self.storm.map(|storm| ("storm".to_owned(), json!(storm))));
        let mut body = json!({"act": self.act, "filter": filter});
        if let Some(at) = self.at {
            body["executeAt"] = json!(at);
        }
        body
    }
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Preview { wish } => {
            let mut body = wish.body();
            body["dryRun"] = json!(true);
            let answer = client.send(Method::POST, "/admin/jobs", &body).await?;
            shown.show(&answer, previewed);
        }
        Command::Start {
            wish,
            digest,
            reason,
        } => {
            let mut body = wish.body();
            body["digest"] = json!(digest);
            body["reason"] = json!(reason);
            let answer = client.send(Method::POST, "/admin/jobs", &body).await?;
            shown.show(&answer, one);
        }
        Command::List { after, limit } => {
            let limit = limit.map(|limit| limit.to_string());
            let query = query(&[("after", after), ("limit", limit)]);
            shown.show(&client.get(&format!("/admin/jobs{query}")).await?, list);
        }
        Command::Show { job } => {
            let path = format!("/admin/jobs/{}", quoted(&job));
            shown.show(&client.get(&path).await?, one);
        }
        Command::Items {
            job,
            left_out,
            after,
            limit,
        } => {
            let query = query(&[
                ("leftOut", left_out.then(|| "true".to_owned())),
                ("after", after.map(|after| after.to_string())),
                ("limit", limit.map(|limit| limit.to_string())),
            ]);
            let path = format!("/admin/jobs/{}/items{query}", quoted(&job));
            shown.show(&client.get(&path).await?, items);
        }
        Command::Stop { job, reason } => {
            let path = format!("/admin/jobs/{}/stop", quoted(&job));
            let body = json!({"reason": reason});
            shown.show(&client.send(Method::POST, &path, &body).await?, one);
        }
    }
    Ok(())
}

fn previewed(answer: &Value) -> String {
    let (act, count) = (cell(&answer["act"]), cell(&answer["count"]));
    let mut text = format!("{act}: {count} items{}\n", sums(&answer["amounts"]));
    let header = [
        "first items",
        "amount",
        "currency",
        "lane",
        "status",
        "queue",
    ];
    let named = ["id", "amount", "currency", "lane", "status", "queueStatus"];
    text += &table(&header, &rows(&answer["first"], &named));
    let excluded = rows(&answer["excluded"], &["count", "reason"]);
    if !excluded.is_empty() {
        text += "not possible for:\n";
        text += &table(&["items", "reason"], &excluded);
    }
    let (digest, until) = (cell(&answer["digest"]), cell(&answer["expiresAt"]));
    text + &format!("to start it before {until}: --digest {digest}")
}

fn sums(amounts: &Value) -> String {
    let amounts = amounts.as_object().into_iter().flatten();
    let sums = amounts.map(|(currency, sum)| format!(", {} {currency}", cell(sum)));
    sums.collect()
}

fn one(answer: &Value) -> String {
    let named = [
        ("job", "jobId"),
        ("act", "act"),
        ("state", "state"),
        ("filter", "filter"),
        ("by", "actor"),
        ("reason", "reason"),
        ("items", "count"),
        ("done", "done"),
        ("left out", "leftOut"),
        ("still to do", "left"),
        ("per second", "rate"),
        ("started", "startedAt"),
        ("ended", "endedAt"),
        ("stopped by", "stopped"),
    ];
    fields(answer, &named)
}

fn list(answer: &Value) -> String {
    let header = [
        "job", "act", "state", "items", "done", "left out", "by", "started", "reason",
    ];
    let named = [
        "jobId",
        "act",
        "state",
        "count",
        "done",
        "leftOut",
        "actor",
        "startedAt",
        "reason",
    ];
    let rows = rows(&answer["jobs"], &named);
    if rows.is_empty() {
        return "no jobs".to_owned();
    }
    table(&header, &rows) + &more(&answer["next"])
}

fn items(answer: &Value) -> String {
    let header = ["number", "item", "done", "left out because", "answer"];
    let named = ["number", "id", "done", "leftOut", "answer"];
    let rows = rows(&answer["items"], &named);
    if rows.is_empty() {
        return "no items".to_owned();
    }
    table(&header, &rows) + &more(&answer["next"])
}
