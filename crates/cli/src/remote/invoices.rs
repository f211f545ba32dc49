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
use super::table::{cell, elsewhere, fields, more, query, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List invoices, newest first.
    List {
        /// Filter by status: PENDING, PAID, FAILED, IN_DOUBT or CANCELLED.
        #[arg(long)]
        status: Option<String>,
        /// Filter by customer.
        #[arg(long, value_name = "ID")]
        customer: Option<String>,
        /// Next page: the token that the previous page shows.
        #[arg(long, value_name = "TOKEN")]
        after: Option<String>,
        /// Page size. Default: 100, maximum: 1000.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Show an invoice with its next charge and its history.
    Show {
        /// Invoice id.
        id: String,
    },
    /// Create an invoice. Repeating the same command changes nothing.
    Create {
        /// Invoice id.
        id: String,
        /// Customer id.
        #[arg(long, value_name = "ID")]
        customer: String,
        /// Amount, such as 100.00.
        #[arg(long)]
        amount: String,
        /// Currency, such as DKK.
        #[arg(long)]
        currency: String,
        /// Schedule, such as "0 0 1 * *". Default: the customer's schedule, or else the global one.
        #[arg(long)]
        cron: Option<String>,
    },
    /// Reschedule a waiting invoice. A FAILED invoice is charged again.
    Reschedule {
        /// Invoice id.
        id: String,
        /// Earliest time. Default: the next time of its schedule.
        #[arg(long, value_name = "TIME")]
        at: Option<String>,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Cancel an invoice that has not been charged.
    Cancel {
        /// Invoice id.
        id: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Change the amount. Refused if the invoice has been charged or may have been.
    Correct {
        /// Invoice id.
        id: String,
        /// Amount, such as 90.00.
        #[arg(long)]
        amount: String,
        /// Currency of the invoice, such as DKK.
        #[arg(long)]
        currency: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Mark an invoice that was paid elsewhere as PAID. The customer is not charged.
    Settle {
        /// Invoice id.
        id: String,
        /// Reference of the external payment, such as a transfer number.
        #[arg(long)]
        reference: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Import a file of invoices, one JSON object per line.
    ///
    /// Existing invoices do not change, so an interrupted import can be repeated. If two lines have the
    /// same id, the first one counts. Stops if the service is unreachable. Exits with 1 if lines were
    /// refused or not sent.
    Import {
        /// NDJSON file: one invoice as JSON per line.
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
        let text = format!("no invoices\n{}", elsewhere(&answer["archived"]));
        return text.trim_end().to_owned();
    }
    table(&header, &rows) + &elsewhere(&answer["archived"]) + &more(&answer["next"])
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
