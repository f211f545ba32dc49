//! `tollgate invoices …`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::invoice_import;
use super::payments::attempts;
use super::table::{cell, fields, more, query, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Invoices in the order of their ids, page by page.
    List {
        /// Only those with this status: PENDING, PAID, FAILED, IN_DOUBT or CANCELLED.
        #[arg(long)]
        status: Option<String>,
        /// Only those of this customer.
        #[arg(long, value_name = "ID")]
        customer: Option<String>,
        /// The next page: after this id.
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        /// How many a page has at most, up to 1000; 100 if not given.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// One invoice: when it is charged, and what happened to it.
    Show {
        /// The invoice's id.
        id: String,
    },
    /// Takes an invoice in. The same again changes nothing.
    Create {
        /// The invoice's id.
        id: String,
        /// Who is charged.
        #[arg(long, value_name = "ID")]
        customer: String,
        /// Such as 100.00.
        #[arg(long)]
        amount: String,
        /// Such as DKK.
        #[arg(long)]
        currency: String,
        /// When it is charged, such as "0 0 1 * *"; by its customer's schedule, or else the global
        /// one, if not given.
        #[arg(long)]
        cron: Option<String>,
    },
    /// Gives an invoice that waits another time; one that has FAILED is tried again.
    Reschedule {
        /// The invoice's id.
        id: String,
        /// Not before this time; derived anew from its schedule if not given.
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
        /// What the next person should know.
        #[arg(long)]
        reason: String,
    },
    /// Withdraws an invoice that was not charged.
    Cancel {
        /// The invoice's id.
        id: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Charges another amount from now on; refused once the invoice was charged or may have been.
    Correct {
        /// The invoice's id.
        id: String,
        /// Such as 90.00.
        #[arg(long)]
        amount: String,
        /// The invoice's currency, such as DKK.
        #[arg(long)]
        currency: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Marks an invoice as PAID that was paid elsewhere. The customer is not charged.
    Settle {
        /// The invoice's id.
        id: String,
        /// Where the payment is found, such as the transfer's number.
        #[arg(long)]
        reference: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Takes a file of invoices in, one JSON object a line. A line that is known changes nothing, so
    /// import a file again that broke off. Of two lines with one id the first wins. Stops when the
    /// service is lost. Exits with 1 if lines were refused or left over.
    Import {
        /// NDJSON: an invoice as JSON on every line.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

pub(super) async fn run(
    client: &Client,
    shown: &Shown,
    command: Command,
) -> anyhow::Result<ExitCode> {
    match command {
        Command::List {
            status,
            customer,
            after,
            limit,
        } => {
            let query = query(&[
                ("status", status),
                ("customer", customer),
                ("after", after),
                ("limit", limit.map(|limit| limit.to_string())),
            ]);
            shown.show(&client.get(&format!("/invoices{query}")).await?, list);
        }
        Command::Show { id } => {
            let path = format!("/invoices/{}", quoted(&id));
            shown.show(&client.get(&path).await?, invoice);
        }
        Command::Create {
            id,
            customer,
            amount,
            currency,
            cron,
        } => {
            let body = json!({
                "invoiceId": id, "customerId": customer,
                "amount": {"value": amount, "currency": currency},
                "schedule": cron.map(|cron| json!({"cron": cron})),
            });
            let answer = client.send(Method::POST, "/invoices", &body).await?;
            shown.show(&answer, invoice);
        }
        Command::Reschedule { id, at, reason } => {
            let path = format!("/invoices/{}/reschedule", quoted(&id));
            let body = json!({"at": at, "reason": reason});
            shown.show(&client.send(Method::POST, &path, &body).await?, invoice);
        }
        Command::Cancel { id, reason } => {
            let body = json!({"reason": reason});
            shown.show(&change(client, &id, "cancel", &body).await?, invoice);
        }
        Command::Correct {
            id,
            amount,
            currency,
            reason,
        } => {
            let amount = json!({"value": amount, "currency": currency});
            let body = json!({"amount": amount, "reason": reason});
            shown.show(&change(client, &id, "correct", &body).await?, invoice);
        }
        Command::Settle {
            id,
            reference,
            reason,
        } => {
            let body = json!({"reference": reference, "reason": reason});
            shown.show(&change(client, &id, "settle", &body).await?, invoice);
        }
        Command::Import { file } => return invoice_import::run(client, shown, &file).await,
    }
    Ok(ExitCode::SUCCESS)
}

async fn change(client: &Client, id: &str, how: &str, body: &Value) -> anyhow::Result<Value> {
    let path = format!("/invoices/{}/{how}", quoted(id));
    client.send(Method::POST, &path, body).await
}

fn list(answer: &Value) -> String {
    let header = [
        "invoice",
        "status",
        "amount",
        "currency",
        "in the queue",
        "slot",
    ];
    let lines = answer["invoices"].as_array().into_iter().flatten();
    let rows: Vec<Vec<String>> = lines
        .map(|line| {
            let amount = &line["amount"];
            vec![
                cell(&line["invoiceId"]),
                cell(&line["status"]),
                cell(&amount["value"]),
                cell(&amount["currency"]),
                cell(&line["queueStatus"]),
                cell(&line["scheduledTime"]),
            ]
        })
        .collect();
    if rows.is_empty() && answer["next"].is_null() {
        return "no such invoices".to_owned();
    }
    table(&header, &rows) + &more(&answer["next"])
}

/// An invoice, for people.
pub(super) fn invoice(answer: &Value) -> String {
    let named = [
        ("invoice", "invoiceId"),
        ("customer", "customerId"),
        ("status", "status"),
        ("charged at", "scheduledTime"),
        ("in the queue", "queueStatus"),
        ("sends", "sends"),
        ("why not running", "whyNotRunning"),
    ];
    let amount = &answer["amount"];
    let amount = format!("{} {}", cell(&amount["value"]), cell(&amount["currency"]));
    let warning = match answer["warning"].as_str() {
        Some(warning) => format!("\nwarning: {warning}"),
        None => String::new(),
    };
    let events = answer["timeline"].as_array().into_iter().flatten();
    let events: Vec<String> = events
        .map(|event| format!("  {}  {}", cell(&event["at"]), cell(&event["what"])))
        .collect();
    format!(
        "{}amount           {amount}{warning}\n{}\n{}",
        fields(answer, &named),
        attempts(answer),
        events.join("\n")
    )
}
