//! `tollgate customers …`.

use clap::Subcommand;
use tollgate_client::Client;
use tollgate_client::contract::{Customer, CustomerChange, CustomerList};

use super::Shown;
use super::table::{facts, more, row, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List customers by id, paged.
    List {
        /// Next page: items after this id.
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        /// Page size. Default: 100, maximum: 1000.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// Show a customer.
    Show {
        /// Customer id.
        id: String,
    },
    /// Create a customer. Repeating the same command changes nothing.
    Create {
        /// Customer id.
        id: String,
        /// Currency of the customer's invoices, such as DKK.
        #[arg(long)]
        currency: String,
        /// IANA time zone for schedules, such as Europe/Copenhagen.
        #[arg(long, value_name = "ZONE")]
        time_zone: String,
        /// Retry schedule after declined charges, such as 1d,3d,7d. Default: invoices.ladder.
        #[arg(long, value_name = "TIMES", value_delimiter = ',')]
        ladder: Option<Vec<String>>,
    },
    /// Change a customer. Other values stay as they are. Queued invoices keep their time.
    Change {
        /// Customer id.
        id: String,
        /// New currency. Only possible without outstanding invoices.
        #[arg(long)]
        currency: Option<String>,
        /// IANA time zone for schedules, such as Europe/Copenhagen.
        #[arg(long, value_name = "ZONE")]
        time_zone: Option<String>,
        /// Retry schedule after declined charges, such as 1d,3d,7d.
        #[arg(long, value_name = "TIMES", value_delimiter = ',')]
        ladder: Option<Vec<String>>,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    let customers = client.customers();
    let answer = match command {
        Command::List { after, limit } => {
            shown.show(&customers.list(after.as_deref(), limit).await?, list);
            return Ok(());
        }
        Command::Show { id } => customers.get(&id).await?,
        Command::Create {
            id,
            currency,
            time_zone,
            ladder,
        } => {
            let customer = Customer {
                customer_id: id,
                currency,
                time_zone,
                ladder,
            };
            customers.create(&customer).await?
        }
        Command::Change {
            id,
            currency,
            time_zone,
            ladder,
            reason,
        } => {
            let known = customers.get(&id).await?.into_value();
            let change = CustomerChange {
                currency: currency.unwrap_or(known.currency),
                time_zone: time_zone.unwrap_or(known.time_zone),
                ladder: ladder.or(known.ladder),
                reason: Some(reason),
            };
            customers.change(&id, &change).await?
        }
    };
    shown.show(&answer, customer);
    Ok(())
}

fn list(page: &CustomerList) -> String {
    if page.customers.is_empty() && page.next.is_none() {
        return "no customers".to_owned();
    }
    let header = ["customer", "currency", "time zone", "ladder"];
    let rows: Vec<Vec<String>> = page
        .customers
        .iter()
        .map(|it| row(&[&it.customer_id, &it.currency, &it.time_zone, &it.ladder]))
        .collect();
    table(&header, &rows) + &more(page.next.as_ref())
}

fn customer(it: &Customer) -> String {
    facts(&[
        ("customer", &it.customer_id),
        ("currency", &it.currency),
        ("time zone", &it.time_zone),
        ("ladder", &it.ladder),
    ])
}
