//! `tollgate held …`: working through what missed its deadline, or what a rule holds.

use clap::Subcommand;
use tollgate_client::contract::HeldList;
use tollgate_client::{Client, HeldQuery};

use super::Shown;
use super::payment_views::payment;
use super::table::{more, row, table};

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
    let answer = match command {
        Command::List {
            item_type,
            gateway,
            after,
            limit,
        } => {
            let query = HeldQuery {
                item_type: Some(item_type),
                gateway,
                after,
                limit,
            };
            shown.show(&client.held().list(&query).await?, list);
            return Ok(());
        }
        Command::Release { id, reason } => client.payments().release(&id, &reason).await?,
        Command::Cancel { id, reason } => client.payments().cancel(&id, &reason).await?,
    };
    shown.show(&answer, payment);
    Ok(())
}

fn list(page: &HeldList) -> String {
    if page.items.is_empty() {
        return "nothing is held".to_owned();
    }
    let header = ["id", "amount", "currency", "lane", "due", "deadline", "why"];
    let items: Vec<Vec<String>> = page
        .items
        .iter()
        .map(|it| {
            row(&[
                &it.id,
                &it.amount,
                &it.currency,
                &it.lane,
                &it.due,
                &it.deadline,
                &it.why,
            ])
        })
        .collect();
    let sums = page.amounts.iter();
    let sums: Vec<Vec<String>> = sums
        .map(|sum| row(&[&sum.currency, &sum.count, &sum.amount]))
        .collect();
    format!(
        "{}\n{} held\n{}{}",
        table(&header, &items),
        page.count,
        table(&["currency", "count", "amount"], &sums),
        more(page.next.as_ref())
    )
}
