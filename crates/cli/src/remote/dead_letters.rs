//! `tollgate dead-letters …`: what the machine has given up.

use clap::Subcommand;
use tollgate_client::contract::{DeadLetterList, Replayed};
use tollgate_client::{Client, DeadLetterQuery};

use super::Shown;
use super::table::{more, row, table};

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
            let query = DeadLetterQuery {
                item_type: Some(item_type),
                after,
                limit,
            };
            shown.show(&client.dead_letters().list(&query).await?, list);
        }
        Command::Replay {
            id,
            item_type,
            reason,
        } => {
            let answer = client.dead_letters().replay(&item_type, &id, &reason);
            shown.show(&answer.await?, replayed);
        }
    }
    Ok(())
}

fn replayed(it: &Replayed) -> String {
    format!(
        "{}/{} is {} again, as run {}",
        it.item_type, it.id, it.queue_status, it.run
    )
}

fn list(page: &DeadLetterList) -> String {
    if page.dead_letters.is_empty() {
        return "no dead letters".to_owned();
    }
    let header = [
        "item", "amount", "currency", "lane", "run", "retries", "due", "reason",
    ];
    let rows: Vec<Vec<String>> = page
        .dead_letters
        .iter()
        .map(|it| {
            row(&[
                &it.id,
                &it.amount,
                &it.currency,
                &it.lane,
                &it.run,
                &it.retry_count,
                &it.due,
                &it.last_error,
            ])
        })
        .collect();
    table(&header, &rows) + &more(page.next.as_ref())
}
