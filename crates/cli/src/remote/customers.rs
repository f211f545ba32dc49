//! `tollgate customers …`.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::table::{fields, more, query, rows, table};

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
    let answer = match command {
        Command::List { after, limit } => {
            let limit = limit.map(|limit| limit.to_string());
            let query = query(&[("after", after), ("limit", limit)]);
            shown.show(&client.get(&format!("/customers{query}")).await?, list);
            return Ok(());
        }
        Command::Show { id } => client.get(&format!("/customers/{}", quoted(&id))).await?,
        Command::Create {
            id,
            currency,
            time_zone,
            ladder,
        } => {
            let body = json!({
                "customerId": id, "currency": currency, "timeZone": time_zone, "ladder": ladder,
            });
            client.send(Method::POST, "/customers", &body).await?
        }
        Command::Change {
            id,
            currency,
            time_zone,
            ladder,
            reason,
        } => {
            let path = format!("/customers/{}", quoted(&id));
            let known = client.get(&path).await?;
            let or_known =
                |given: Option<Value>, field: &str| given.unwrap_or_else(|| known[field].clone());
            let body = json!({
                "currency": or_known(currency.map(Value::from), "currency"),
                "timeZone": or_known(time_zone.map(Value::from), "timeZone"),
                "ladder": or_known(ladder.map(Value::from), "ladder"),
                "reason": reason,
            });
            client.send(Method::PUT, &path, &body).await?
        }
    };
    shown.show(&answer, customer);
    Ok(())
}

fn list(answer: &Value) -> String {
    let header = ["customer", "currency", "time zone", "ladder"];
    let named = ["customerId", "currency", "timeZone", "ladder"];
    let rows = rows(&answer["customers"], &named);
    if rows.is_empty() && answer["next"].is_null() {
        return "no customers".to_owned();
    }
    table(&header, &rows) + &more(&answer["next"])
}

fn customer(answer: &Value) -> String {
    let named = [
        ("customer", "customerId"),
        ("currency", "currency"),
        ("time zone", "timeZone"),
        ("ladder", "ladder"),
    ];
    fields(answer, &named)
}
