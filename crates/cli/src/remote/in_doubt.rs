//! `tollgate in-doubt …`: working through what nobody knows the outcome of.

use std::collections::BTreeMap;
use std::fmt::Write;

use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};
use tollgate_client::Client;
use tollgate_client::contract::{
    AtRisk, Doubtful, InDoubt, InDoubtList, InDoubtQuestion, InDoubtQuestions, Resolution,
    ResolutionResult,
};

use super::Shown;
use super::check_status;
use super::invoice_views::invoice;
use super::payment_views::payment;
use super::table::{cell, more, row, table};

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
    /// Asks about the given payments, or about all payments last sent on a given day. A payment that its bank
    /// has executed is no longer in doubt. Fails if no bank could be asked about any of them.
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
    let in_doubt = client.in_doubt();
    match command {
        Command::List {
            item_type: Some(item_type),
            after,
        } => {
            let page = in_doubt.list(Some(&item_type), after.as_deref()).await?;
            shown.show(&page, list);
        }
        Command::List {
            item_type: None, ..
        } => {
            let all = AllTypes::read(client).await?;
            shown.show_json(&all.json(), || all.text());
        }
        Command::Show { id, of } => {
            shown.show(&in_doubt.get(&of.item_type, &id).await?, item);
        }
        Command::Ask {
            ids, date, zone, ..
        } => {
            let question = InDoubtQuestion {
                payment_ids: (!ids.is_empty()).then_some(ids),
                date,
                zone,
            };
            let asked = ask(client, &question).await?;
            let left = in_doubt.list(None, None).await?;
            shown.show_json(&json!(asked), || answered(&asked, &left));
        }
        Command::Resolve {
            id,
            of,
            outcome,
            sends,
            reason,
            actor,
        } => {
            let resolution = Resolution {
                outcome: outcome.as_str().to_owned(),
                sends,
                reason,
                actor,
            };
            let answer = in_doubt.resolve(&of.item_type, &id, &resolution).await?;
            shown.show(&answer, resolved);
        }
    }
    Ok(())
}

/// Asks until all were asked about. Status checks are waited for.
async fn ask(client: &Client, question: &InDoubtQuestion) -> anyhow::Result<InDoubtQuestions> {
    let sum =
        |one: Option<usize>, other: Option<usize>| Some(one.unwrap_or(0) + other.unwrap_or(0));
    let in_doubt = client.in_doubt();
    let mut all = in_doubt.ask(question).await?.into_value();
    while !all.left.is_empty() {
        let rest = InDoubtQuestion {
            payment_ids: Some(all.left),
            date: None,
            zone: None,
        };
        let more = in_doubt.ask(&rest).await?.into_value();
        all.asked = sum(all.asked, more.asked);
        all.answered = sum(all.answered, more.answered);
        all.resolved = sum(all.resolved, more.resolved);
        all.left = more.left;
    }
    let mut by_services = 0;
    for check in &all.workflow_ids {
        let done = check_status::wait(client, check).await?;
        by_services += check_status::asked_about(&done);
    }
    if !all.workflow_ids.is_empty() {
        let failed = "no payment could be asked about; see tollgate check-status";
        anyhow::ensure!(by_services > 0, failed);
        all.asked = Some(by_services);
    }
    Ok(all)
}

/// The types whose items can be in doubt.
const TYPES: [&str; 2] = ["PAYMENT", "INVOICE"];

/// The first page of each type as one list.
struct AllTypes {
    at_risk: Vec<(&'static str, AtRisk)>,
    items: Vec<InDoubt>,
    /// Where the next page of a type begins, if it has one.
    next: BTreeMap<&'static str, String>,
}

impl AllTypes {
    async fn read(client: &Client) -> anyhow::Result<Self> {
        let (mut at_risk, mut items, mut next) = (vec![], vec![], BTreeMap::new());
        for item_type in TYPES {
            let page = client.in_doubt().list(Some(item_type), None).await?;
            let page = page.into_value();
            at_risk.extend(page.at_risk.into_iter().map(|risk| (item_type, risk)));
            items.extend(page.items);
            next.extend(page.next.map(|next| (item_type, next)));
        }
        Ok(Self {
            at_risk,
            items,
            next,
        })
    }

    fn json(&self) -> Value {
        let risks = self.at_risk.iter().map(|(item_type, risk)| {
            let mut risk = json!(risk);
            risk["itemType"] = json!(item_type);
            risk
        });
        let risks: Vec<Value> = risks.collect();
        let next = (!self.next.is_empty()).then_some(&self.next);
        json!({"atRisk": risks, "items": self.items, "next": next})
    }

    fn text(&self) -> String {
        let more = self.next.iter().map(|(item_type, after)| {
            format!("\nmore {item_type} items: --type {item_type} --after {after}")
        });
        let more: String = more.collect();
        listed(
            &self.items,
            self.at_risk.iter().map(|(_, risk)| risk),
            &more,
        )
    }
}

fn answered(asked: &InDoubtQuestions, left: &InDoubtList) -> String {
    let left = if left.at_risk.is_empty() {
        "nothing is in doubt".to_owned()
    } else {
        let header = ["currency", "still in doubt", "amount", "oldest since"];
        table(&header, &risks(left.at_risk.iter()))
    };
    if asked.payments == 0 {
        return format!("no payment of that day is in doubt\n{left}");
    }
    let mut counts = format!("payments asked about: {}", cell(&asked.asked));
    if let Some(answered) = asked.answered {
        let resolved = cell(&asked.resolved);
        let _ = write!(counts, ", answered: {answered}, resolved: {resolved}");
    }
    format!("{counts}\n{left}")
}

fn list(page: &InDoubtList) -> String {
    listed(&page.items, page.at_risk.iter(), &more(page.next.as_ref()))
}

fn listed<'r>(items: &[InDoubt], at_risk: impl Iterator<Item = &'r AtRisk>, more: &str) -> String {
    if items.is_empty() {
        return "nothing is in doubt".to_owned();
    }
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
        "last answer",
    ];
    let items = items.iter().map(|it| {
        row(&[
            &it.item_type,
            &it.id,
            &it.amount,
            &it.currency,
            &it.lane,
            &it.first_sent,
            &it.sends,
            &it.questions,
            &it.next_at,
            &it.last_heard,
        ])
    });
    let items: Vec<Vec<String>> = items.collect();
    format!(
        "{}\nAt risk\n{}{more}",
        table(&header, &items),
        table(
            &["currency", "count", "amount", "oldest since"],
            &risks(at_risk)
        ),
    )
}

fn risks<'r>(at_risk: impl Iterator<Item = &'r AtRisk>) -> Vec<Vec<String>> {
    at_risk
        .map(|it| row(&[&it.currency, &it.count, &it.amount, &it.since]))
        .collect()
}

fn item(item: &Doubtful) -> String {
    match item {
        Doubtful::Payment(it) => payment(it),
        Doubtful::Invoice(it) => invoice(it),
    }
}

fn resolved(answer: &ResolutionResult) -> String {
    match answer {
        ResolutionResult::Resolved(it) => item(it),
        ResolutionResult::Proposed(proposed) => {
            format!("recorded as a proposal; it needs {}", proposed.needs)
        }
    }
}
