//! `tollgate in-doubt …`: working through what nobody knows the outcome of.

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
    /// What is in doubt, and how much is at risk.
    List {
        /// Only PAYMENT or only INVOICE; all if not given.
        #[arg(long = "type", value_name = "TYPE")]
        item_type: Option<String>,
        /// The next page of one type: after this id.
        #[arg(long, value_name = "ID", requires = "item_type")]
        after: Option<String>,
    },
    /// One of them: what was sent, what was heard, what happens next.
    Show {
        /// The id of the payment, or of the invoice.
        id: String,
        #[command(flatten)]
        of: Of,
    },
    /// Has payments in doubt asked about at their gateways: those named, or all that were last sent on
    /// a day. A gateway's word that one is completed ends its doubt.
    Ask {
        /// The payments to ask about.
        #[arg(value_name = "ID", required_unless_present_any = ["today", "date"])]
        ids: Vec<String>,
        /// All of today.
        #[arg(long, conflicts_with_all = ["ids", "date"])]
        today: bool,
        /// All of this day, e.g. 2026-11-16.
        #[arg(long, conflicts_with = "ids")]
        date: Option<String>,
        /// The day's IANA zone; UTC if not given.
        #[arg(long)]
        zone: Option<String>,
    },
    /// Decides what became of one of them. Ask the bank, or the provider, first.
    Resolve {
        /// The id of the payment, or of the invoice.
        id: String,
        #[command(flatten)]
        of: Of,
        /// What the bank says.
        #[arg(long)]
        outcome: Outcome,
        /// The number of sends you asked the bank about, as the list tells it. Refused if it was sent
        /// again since, or while an answer may still come (up to two minutes).
        #[arg(long)]
        sends: u32,
        /// How you know.
        #[arg(long)]
        reason: String,
        /// Who decides; needed where two persons must and there are no tokens.
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
    /// The bank did it.
    Done,
    /// The bank did not do it: it is sent again.
    NotDone,
    /// Nobody pays it any more.
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
            let asked = client.send(Method::POST, "/admin/in-doubt/ask", &body);
            let asked = asked.await?;
            for workflow in asked["workflowIds"].as_array().into_iter().flatten() {
                check_status::wait(client, workflow.as_str().unwrap_or_default()).await?;
            }
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
    format!("{} asked about\n{left}", cell(&asked["payments"]))
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
        Some(needs) => format!("proposed; it needs {needs}"),
        None if answer["invoiceId"].is_string() => invoice(answer),
        None => payment(answer),
    }
}
