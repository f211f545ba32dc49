//! `tollgate dead-letters …`: what the machine has given up.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::table::{cell, more, query, rows, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List dead letters with the reason, newest due time first.
    List {
        /// PAYMENT, INVOICE or NOTIFICATION.
        #[arg(long = "type", value_name = "TYPE", default_value = "PAYMENT")]
        item_type: String,
        /// Next page: the token that the previous page shows.
        #[arg(long, value_name = "TOKEN")]
        after: Option<String>,
        /// Page size. Default: 100, maximum: 1000.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Replay a dead letter now.
    Replay {
        /// Item id.
        id: String,
        /// PAYMENT, INVOICE or NOTIFICATION.
        #[arg(long = "type", value_name = "TYPE", default_value = "PAYMENT")]
        item_type: String,
        /// Reason, recorded in the audit log: what has been fixed.
        #[arg(long)]
        reason: String,
    },
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    match command {
        Command::List {
            item_type,
            after,
            limit,
        } => {
            let query = query(&[
                ("type", Some(item_type)),
                ("after", after),
                ("limit", limit.map(|limit| limit.to_string())),
            ]);
            shown.show(
                &client.get(&format!("/admin/dead-letters{query}")).await?,
                list,
            );
        }
        Command::Replay {
            id,
            item_type,
            reason,
        } => {
            let (item_type, id) = (quoted(&item_type), quoted(&id));
            let path = format!("/admin/dead-letters/{item_type}/{id}/replay");
            let answer = client
                .send(Method::POST, &path, &json!({"reason": reason}))
                .await?;
            shown.show(&answer, replayed);
        }
    }
    Ok(())
}

fn replayed(answer: &Value) -> String {
    let told = |field: &str| cell(&answer[field]);
    let (item_type, id) = (told("itemType"), told("id"));
    format!(
        "{item_type}/{id} is {} again, as run {}",
        told("queueStatus"),
        told("run")
    )
}

fn list(answer: &Value) -> String {
    let header = [
        "item", "amount", "currency", "lane", "run", "retries", "due", "reason",
    ];
    let named = [
        "id",
        "amount",
        "currency",
        "lane",
        "run",
        "retryCount",
        "due",
        "lastError",
    ];
    let rows = rows(&answer["deadLetters"], &named);
    if rows.is_empty() {
        return "no dead letters".to_owned();
    }
    table(&header, &rows) + &more(&answer["next"])
}
