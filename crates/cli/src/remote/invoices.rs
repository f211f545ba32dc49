//! `tollgate invoices …`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use futures::{StreamExt, stream};
use http::Method;
use serde_json::{Value, json};
use tollgate_domains::json;

use super::Shown;
use super::client::{Client, quoted};
use super::payments::attempts;
use super::table::{cell, fields, more, query, table};

/// At most this many requests of an import are under way at once.
const AT_ONCE: usize = 16;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Invoices in the order of their ids, page by page.
    List {
        /// Only those with this status: PENDING, PAID, FAILED or IN_DOUBT.
        #[arg(long)]
        status: Option<String>,
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
    /// Takes a file of invoices in, one JSON object a line. A line that was taken in before changes
    /// nothing, so a file that broke off is imported again. Exits with 1 if some lines were refused.
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
            after,
            limit,
        } => {
            let query = query(&[
                ("status", status),
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
        Command::Import { file } => return import(client, shown, &file).await,
    }
    Ok(ExitCode::SUCCESS)
}

async fn import(
    client: &Client,
    shown: &Shown,
    file: &std::path::Path,
) -> anyhow::Result<ExitCode> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let take = async |(number, line): (usize, &str)| {
        let taken = async {
            let body = json::read(line.as_bytes())?;
            client.send(Method::POST, "/invoices", &body).await
        };
        (number + 1, taken.await)
    };
    let told: Vec<_> = stream::iter(lines)
        .map(take)
        .buffered(AT_ONCE)
        .collect()
        .await;
    let refused: Vec<Value> = told
        .iter()
        .filter_map(|(number, taken)| {
            let why = taken.as_ref().err()?;
            Some(json!({"line": number, "reason": format!("{why:#}")}))
        })
        .collect();
    let all_well = refused.is_empty();
    let answer = json!({"accepted": told.len() - refused.len(), "refused": refused});
    shown.show(&answer, |answer| {
        let refused = answer["refused"].as_array().into_iter().flatten();
        let mut lines: Vec<String> = refused
            .map(|line| format!("line {}: {}", line["line"], cell(&line["reason"])))
            .collect();
        lines.push(format!("{} invoices taken in", answer["accepted"]));
        lines.join("\n")
    });
    Ok(if all_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
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
