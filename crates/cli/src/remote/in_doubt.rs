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
        #[command(flatten)]
        of: Of,
        /// The next page: after this id.
        #[arg(long, value_name = "ID")]
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
        Command::List { of, after } => {
            let query = query(&[("type", Some(of.item_type)), ("after", after)]);
            let answer = client.get(&format!("/admin/in-doubt{query}")).await?;
            shown.show(&answer, list);
        }
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
        more(&answer["next"])
    )
}

fn resolved(answer: &Value) -> String {
    match answer["needs"].as_str() {
        Some(needs) => format!("proposed; it needs {needs}"),
        None if answer["invoiceId"].is_string() => invoice(answer),
        None => payment(answer),
    }
}
