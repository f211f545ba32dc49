//! `tollgate dead-letters …`: what the machine has given up.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::table::{cell, more, query, rows, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What was given up, and why.
    List {
        /// PAYMENT, INVOICE or NOTIFICATION.
        #[arg(long = "type", value_name = "TYPE", default_value = "PAYMENT")]
        item_type: String,
        /// The next page: after this id.
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        /// How many a page has at most, up to 1000; 100 if not given.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Has one of them tried again, at once.
    Replay {
        /// The item's id.
        id: String,
        /// PAYMENT, INVOICE or NOTIFICATION.
        #[arg(long = "type", value_name = "TYPE", default_value = "PAYMENT")]
        item_type: String,
        /// What was put right.
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
        "item",
        "amount",
        "currency",
        "lane",
        "run",
        "retries",
        "due",
        "given up because",
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
        return "nothing is dead".to_owned();
    }
    table(&header, &rows) + &more(&answer["next"])
}
