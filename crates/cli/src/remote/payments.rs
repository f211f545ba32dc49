//! `tollgate payments …`.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::table::{cell, elsewhere, fields, more, query, rows, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List payments, newest first, paged; of an import sorted by id.
    List {
        /// Filter by status, such as SCHEDULED or REJECTED.
        #[arg(long)]
        status: Option<String>,
        /// Filter by lane.
        #[arg(long)]
        lane: Option<String>,
        /// Filter by gateway.
        #[arg(long)]
        gateway: Option<String>,
        /// Filter by import.
        #[arg(long, value_name = "BATCH_ID")]
        batch: Option<String>,
        /// Account of the debtor or the creditor, complete.
        #[arg(long)]
        account: Option<String>,
        #[arg(long)]
        reference: Option<String>,
        /// Only payments that are held.
        #[arg(long)]
        held: bool,
        /// Only payments that will miss their deadline as things stand.
        #[arg(long, conflicts_with = "batch")]
        at_risk: bool,
        /// Next page: the token that the previous page ends with.
        #[arg(long, value_name = "TOKEN")]
        after: Option<String>,
        /// Page size. Default: 100, maximum: 1000.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Show a payment: its status, its history, and why it is not running.
    Show {
        /// Payment id.
        id: String,
    },
    /// Cancel a waiting payment.
    Cancel {
        /// Payment id.
        id: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Reschedule a waiting payment.
    Reschedule {
        /// Payment id.
        id: String,
        /// Earliest time, such as 2026-11-16T16:00:00-07:00.
        #[arg(long, value_name = "TIME")]
        at: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Reopen a payment that the bank refused, or all payments of a refusal storm, to send them again.
    Reopen {
        /// Payment id.
        #[arg(required_unless_present = "storm", conflicts_with = "storm")]
        id: Option<String>,
        /// All rejected payments of this refusal storm (see `tollgate lanes storms`).
        #[arg(long, value_name = "NUMBER")]
        storm: Option<i64>,
        /// Show what would be reopened without changing anything.
        #[arg(long, requires = "storm")]
        preview: bool,
        /// Reason, recorded in the audit log; not needed with --preview.
        #[arg(long, required_unless_present = "preview")]
        reason: Option<String>,
    },
    /// Release a payment that was held after its deadline or by a rule.
    Release {
        /// Payment id.
        id: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    match command {
        Command::List {
            status,
            lane,
            gateway,
            batch,
            account,
            reference,
            held,
            at_risk,
            after,
            limit,
        } => {
            let query = query(&[
                ("status", status),
                ("lane", lane),
                ("gateway", gateway),
                ("batch", batch),
                ("account", account),
                ("reference", reference),
                ("held", held.then(|| "true".to_owned())),
                ("atRisk", at_risk.then(|| "true".to_owned())),
                ("after", after),
                ("limit", limit.map(|limit| limit.to_string())),
            ]);
            shown.show(&client.get(&format!("/payments{query}")).await?, list);
        }
        Command::Show { id } => {
            let path = format!("/payments/{}", quoted(&id));
            shown.show(&client.get(&path).await?, payment);
        }
        Command::Cancel { id, reason } => {
            change(client, shown, &id, "cancel", json!({"reason": reason})).await?;
        }
        Command::Reschedule { id, at, reason } => {
            let body = json!({"executeAt": at, "reason": reason});
            change(client, shown, &id, "reschedule", body).await?;
        }
        Command::Reopen {
            id: Some(id),
            reason,
            ..
        } => {
            change(client, shown, &id, "reopen", json!({"reason": reason})).await?;
        }
        Command::Reopen {
            storm,
            preview,
            reason,
            ..
        } => {
            let path = format!("/admin/storms/{}/reopen", storm.unwrap_or_default());
            let body = json!({"reason": reason.unwrap_or_default(), "preview": preview});
            shown.show(&client.send(Method::POST, &path, &body).await?, reopened);
        }
        Command::Release { id, reason } => {
            change(client, shown, &id, "release", json!({"reason": reason})).await?;
        }
    }
    Ok(())
}

async fn change(
    client: &Client,
    shown: &Shown,
    id: &str,
    what: &str,
    body: Value,
) -> anyhow::Result<()> {
    let path = format!("/payments/{}/{what}", quoted(id));
    shown.show(&client.send(Method::POST, &path, &body).await?, payment);
    Ok(())
}

/// The payments of a storm after a reopen, as text.
fn reopened(answer: &Value) -> String {
    let verb = match answer["preview"].as_bool() {
        Some(true) => "would be reopened",
        _ => "reopened",
    };
    let amounts = answer["amounts"].as_object().into_iter().flatten();
    let amounts = amounts.map(|(currency, amount)| format!("{} {currency}", cell(amount)));
    let count = format!("{} payments {verb}", cell(&answer["reopened"]));
    let reopened: Vec<String> = std::iter::once(count).chain(amounts).collect();
    let kept = cell(&answer["kept"]);
    let mut lines = vec![format!("{}; {kept} stay rejected", reopened.join(", "))];
    let kept = answer["keptBecause"].as_object().into_iter().flatten();
    lines.extend(kept.map(|(id, why)| format!("  {id}: {}", cell(why))));
    if answer["complete"] == json!(false) {
        lines.push("more payments are left; run the command again".to_owned());
    }
    lines.join("\n")
}

/// A payment, for people.
pub(super) fn payment(answer: &Value) -> String {
    let named = [
        ("payment", "paymentId"),
        ("status", "status"),
        ("amount", "amount"),
        ("currency", "currency"),
        ("debtor", "debtor"),
        ("creditor", "creditor"),
        ("reference", "reference"),
        ("gateway", "gateway"),
        ("lane", "lane"),
        ("in the queue", "queueStatus"),
        ("sends", "sends"),
        ("asked for", "executeAt"),
        ("slot", "scheduledTime"),
        ("estimate", "estimate"),
        ("deadline", "deadline"),
        ("why not running", "whyNotRunning"),
    ];
    let mut shown = answer.clone();
    for role in ["debtor", "creditor"] {
        let party = &answer[role];
        if party.is_object() {
            let (name, account) = (cell(&party["name"]), cell(&party["account"]));
            shown[role] = format!("{name}, {account}").into();
        }
    }
    let events = answer["timeline"].as_array().into_iter().flatten();
    let events: Vec<String> = events
        .map(|event| format!("  {}  {}", cell(&event["at"]), cell(&event["what"])))
        .collect();
    let facts = fields(&shown, &named) + &not_taken(answer);
    format!("{facts}{}\n{}", attempts(answer), events.join("\n"))
}

/// Why it was refused; nothing if it was accepted.
fn not_taken(answer: &Value) -> String {
    let details = answer["details"].as_object().into_iter().flatten();
    let lines = details.map(|(what, why)| format!("refused: {what}: {}\n", cell(why)));
    lines.collect()
}

/// What was sent and what was asked, with what the other side knows it by; nothing if nothing was.
pub(super) fn attempts(answer: &Value) -> String {
    let named = ["kind", "outcome", "run", "sentAt", "idempotencyKey"];
    let rows = rows(&answer["attempts"], &named);
    if rows.is_empty() {
        return String::new();
    }
    let header = ["what", "outcome", "run", "sent", "key"];
    format!("\n{}", table(&header, &rows))
}

fn list(answer: &Value) -> String {
    let header = [
        "payment",
        "status",
        "amount",
        "currency",
        "lane",
        "in the queue",
        "slot",
        "in time",
    ];
    let named = [
        "paymentId",
        "status",
        "amount",
        "currency",
        "lane",
        "queueStatus",
        "scheduledTime",
        "meetsDeadline",
    ];
    let rows = rows(&answer["payments"], &named);
    if rows.is_empty() && answer["next"].is_null() {
        let text = format!("no payments\n{}", elsewhere(&answer["archived"]));
        return text.trim_end().to_owned();
    }
    table(&header, &rows)
        + &counted(answer)
        + &elsewhere(&answer["archived"])
        + &more(&answer["next"])
}

/// How many there are, if that is known.
fn counted(answer: &Value) -> String {
    match (answer["count"].as_u64(), answer["atLeast"].as_bool()) {
        (None, _) => String::new(),
        (Some(count), Some(true)) => format!("more than {count} payments\n"),
        (Some(1), _) => "1 payment\n".to_owned(),
        (Some(count), _) => format!("{count} payments\n"),
    }
}
