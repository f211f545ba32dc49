//! `tollgate held …`: working through what missed its deadline, or what a rule holds.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::payments::payment;
use super::table::{cell, more, query, rows, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List held items with their total amounts, newest due time first.
    List {
        /// PAYMENT or INVOICE.
        #[arg(long = "type", value_name = "TYPE", default_value = "PAYMENT")]
        item_type: String,
        /// Filter by gateway.
        #[arg(long)]
        gateway: Option<String>,
        /// Next page: the token that the previous page shows.
        #[arg(long, value_name = "TOKEN")]
        after: Option<String>,
        /// Page size. Default: 100, maximum: 1000.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Release a held payment: it runs now.
    Release {
        /// Payment id.
        id: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Cancel a held payment: it is not paid.
    Cancel {
        /// Payment id.
        id: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    let (id, act, reason) = match command {
        Command::List {
            item_type,
            gateway,
            after,
            limit,
        } => {
            let query = query(&[
                ("type", Some(item_type)),
                ("gateway", gateway),
                ("after", after),
                ("limit", limit.map(|limit| limit.to_string())),
            ]);
            let answer = client.get(&format!("/admin/held{query}")).await?;
            shown.show(&answer, list);
            return Ok(());
        }
        Command::Release { id, reason } => (id, "release", reason),
        Command::Cancel { id, reason } => (id, "cancel", reason),
    };
    let path = format!("/payments/{}/{act}", quoted(&id));
    let body = json!({"reason": reason});
    shown.show(&client.send(Method::POST, &path, &body).await?, payment);
    Ok(())
}

fn list(answer: &Value) -> String {
    let header = ["id", "amount", "currency", "lane", "due", "deadline", "why"];
    let items = rows(&answer["items"], &header);
    if items.is_empty() {
        return "nothing is held".to_owned();
    }
    let sums = rows(&answer["amounts"], &["currency", "count", "amount"]);
    format!(
        "{}\n{} held\n{}{}",
        table(&header, &items),
        cell(&answer["count"]),
        table(&["currency", "count", "amount"], &sums),
        more(&answer["next"])
    )
}
