//! `tollgate in-doubt …`: working through what nobody knows the outcome of.

use std::fmt::Write;

use clap::{Subcommand, ValueEnum};
use http::Method;
use serde_json::{Value, json};

use super::Shown;
use super::check_status;
use super::client::{Client, quoted};
use super::invoices::invoice;
use super::payments::payment;
use super::table::{cell, more, query, rows, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List items in doubt, newest first, with their total amounts.
    List {
        /// Filter by type: PAYMENT or INVOICE. Default: both.
        #[arg(long = "type", value_name = "TYPE")]
        item_type: Option<String>,
        /// Next page of one type: the token that the previous page shows.
        #[arg(long, value_name = "TOKEN", requires = "item_type")]
        after: Option<String>,
    },
    /// Show an item in doubt: its sends, the answers, and the next step.
    Show {
        /// Payment id or invoice id.
        id: String,
        #[command(flatten)]
        of: Of,
    },
    /// Ask the banks about payments in doubt.
    ///
    /// Asks about the given payments, or all that were last sent on a day. A payment that its bank has
    /// executed is no longer in doubt. Fails if no payment could be asked about.
    Ask {
        /// Payment ids.
        #[arg(value_name = "ID", required_unless_present_any = ["today", "date"])]
        ids: Vec<String>,
        /// All payments last sent today.
        #[arg(long, conflicts_with_all = ["ids", "date"])]
        today: bool,
        /// All payments last sent on this day, e.g. 2026-11-16.
        #[arg(long, conflicts_with = "ids")]
        date: Option<String>,
        /// IANA time zone of the day. Default: UTC.
        #[arg(long)]
        zone: Option<String>,
    },
    /// Resolve an item in doubt. Ask the bank or the payment provider first.
    Resolve {
        /// Payment id or invoice id.
        id: String,
        #[command(flatten)]
        of: Of,
        /// Outcome according to the bank.
        #[arg(long)]
        outcome: Outcome,
        /// Number of sends that you asked the bank about, as shown by `list`. Refused if the item
        /// was sent again since, or while an answer may still arrive (up to two minutes).
        #[arg(long)]
        sends: u32,
        /// Evidence for the decision, recorded in the audit log.
        #[arg(long)]
        reason: String,
        /// Your name. Required if in_doubt.two_persons is on and no tokens are configured.
        #[arg(long)]
        actor: Option<String>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Of {
    /// PAYMENT or INVOICE.
    #[arg(long = "type", value_name = "TYPE", default_value = "PAYMENT")]
    item_type: String,
}

impl Of {
    fn path(&self, id: &str) -> String {
        let item_type = quoted(&self.item_type);
        format!("/admin/in-doubt/{item_type}/{}", quoted(id))
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Outcome {
    /// The bank executed it.
    Done,
    /// The bank did not execute it; Tollgate sends it again.
    NotDone,
    /// Give it up; Tollgate does not send it again.
    Failed,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NotDone => "not_done",
            Self::Failed => "failed",
        }
    }
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    match command {
        Command::List {
            item_type: Some(item_type),
            after,
        } => shown.show(&page(client, &item_type, after).await?, list),
        Command::List {
            item_type: None, ..
        } => shown.show(&all_types(client).await?, list),
        Command::Show { id, of } => {
            shown.show(&client.get(&of.path(&id)).await?, resolved);
        }
        Command::Ask {
            ids, date, zone, ..
        } => {
            let mut body = json!({"date": date, "zone": zone});
            if !ids.is_empty() {
                body["paymentIds"] = json!(ids);
            }
            let asked = ask(client, body).await?;
            let left = client.get("/admin/in-doubt").await?;
            shown.show(&asked, |asked| answered(asked, &left));
        }
        Command::Resolve {
            id,
            of,
            outcome,
            sends,
            reason,
            actor,
        } => {
            let path = format!("{}/resolve", of.path(&id));
            let outcome = outcome.as_str();
            let body =
                json!({"outcome": outcome, "sends": sends, "reason": reason, "actor": actor});
            shown.show(&client.send(Method::POST, &path, &body).await?, resolved);
        }
    }
    Ok(())
}

/// Asks until all were asked about. Status checks are waited for.
async fn ask(client: &Client, body: Value) -> anyhow::Result<Value> {
    let path = "/admin/in-doubt/ask";
    let mut told = client.send(Method::POST, path, &body).await?;
    let mut left = told["left"].take();
    while left.as_array().is_some_and(|left| !left.is_empty()) {
        let more = json!({ "paymentIds": left });
        let mut more = client.send(Method::POST, path, &more).await?;
        for count in ["asked", "answered", "resolved"] {
            let sum = told[count].as_u64().unwrap_or(0) + more[count].as_u64().unwrap_or(0);
            told[count] = json!(sum);
        }
        left = more["left"].take();
    }
    told["left"] = json!([]);
    let checks = told["workflowIds"].as_array().cloned().unwrap_or_default();
    let mut by_services = 0;
    for workflow in &checks {
        let check = workflow.as_str().unwrap_or_default();
        let done = check_status::wait(client, check).await?;
        by_services += check_status::asked_about(&done);
    }
    if !checks.is_empty() {
        let failed = "no payment could be asked about; see tollgate check-status";
        anyhow::ensure!(by_services > 0, failed);
        told["asked"] = json!(by_services);
    }
    Ok(told)
}

/// The types whose items can be in doubt.
const TYPES: [&str; 2] = ["PAYMENT", "INVOICE"];

async fn page(client: &Client, item_type: &str, after: Option<String>) -> anyhow::Result<Value> {
    let query = query(&[("type", Some(item_type.to_owned())), ("after", after)]);
    client.get(&format!("/admin/in-doubt{query}")).await
}

/// The first page of each type as one; `next` says by type where the others begin.
async fn all_types(client: &Client) -> anyhow::Result<Value> {
    let (mut items, mut at_risk, mut next) = (vec![], vec![], serde_json::Map::new());
    for item_type in TYPES {
        let mut answer = page(client, item_type, None).await?;
        for risk in answer["atRisk"].as_array_mut().into_iter().flatten() {
            risk["itemType"] = json!(item_type);
            at_risk.push(risk.take());
        }
        for item in answer["items"].as_array_mut().into_iter().flatten() {
            items.push(item.take());
        }
        if answer["next"].is_string() {
            next.insert(item_type.to_owned(), answer["next"].take());
        }
    }
    let next = (!next.is_empty()).then_some(next);
    Ok(json!({"atRisk": at_risk, "items": items, "next": next}))
}

/// What to ask for next, of each type that has more.
fn more_of(next: &Value) -> String {
    let Some(by_type) = next.as_object() else {
        return more(next);
    };
    let told = by_type.iter().map(|(item_type, after)| {
        let after = cell(after);
        format!("\nmore {item_type} items: --type {item_type} --after {after}")
    });
    told.collect()
}

fn answered(asked: &Value, left: &Value) -> String {
    let risk = rows(&left["atRisk"], &["currency", "count", "amount", "since"]);
    let left = if risk.is_empty() {
        "nothing is in doubt".to_owned()
    } else {
        let header = ["currency", "still in doubt", "amount", "oldest since"];
        table(&header, &risk)
    };
    let told = |field: &str| cell(&asked[field]);
    if told("payments") == "0" {
        return format!("no payment of that day is in doubt\n{left}");
    }
    let mut counts = format!("{} asked about", told("asked"));
    if asked["answered"].is_number() {
        let (answered, resolved) = (told("answered"), told("resolved"));
        let _ = write!(counts, ", {answered} answered, {resolved} resolved");
    }
    format!("{counts}\n{left}")
}

fn list(answer: &Value) -> String {
    let header = [
        "type",
        "id",
        "amount",
        "currency",
        "lane",
        "first sent",
        "sends",
        "asked",
        "next",
        "last heard",
    ];
    let named = [
        "itemType",
        "id",
        "amount",
        "currency",
        "lane",
        "firstSent",
        "sends",
        "questions",
        "nextAt",
        "lastHeard",
    ];
    let items = rows(&answer["items"], &named);
    if items.is_empty() {
        return "nothing is in doubt".to_owned();
    }
    let risk = rows(&answer["atRisk"], &["currency", "count", "amount", "since"]);
    format!(
        "{}\nAt risk\n{}{}",
        table(&header, &items),
        table(&["currency", "count", "amount", "oldest since"], &risk),
        more_of(&answer["next"])
    )
}

fn resolved(answer: &Value) -> String {
    match answer["needs"].as_str() {
        Some(needs) => format!("recorded as a proposal; it needs {needs}"),
        None if answer["invoiceId"].is_string() => invoice(answer),
        None => payment(answer),
    }
}
