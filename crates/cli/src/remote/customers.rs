//! `tollgate customers …`.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::table::{fields, more, query, rows, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Customers in the order of their ids, page by page.
    List {
        /// The next page: after this id.
        #[arg(long, value_name = "ID")]
        after: Option<String>,
        /// How many a page has at most, up to 1000; 100 if not given.
        #[arg(long)]
        limit: Option<u32>,
    },
    /// One customer.
    Show {
        /// The customer's id.
        id: String,
    },
    /// Makes a customer known. The same again changes nothing.
    Create {
        /// The customer's id.
        id: String,
        /// What its invoices are in, such as DKK.
        #[arg(long)]
        currency: String,
        /// Where its months begin, such as Europe/Copenhagen.
        #[arg(long, value_name = "ZONE")]
        time_zone: String,
        /// When a declined charge is asked for again, such as 1d,3d,7d; as configured if not given.
        #[arg(long, value_name = "TIMES", value_delimiter = ',')]
        ladder: Option<Vec<String>>,
    },
    /// Changes what is given, and keeps the rest. What is queued keeps its time.
    Change {
        /// The customer's id.
        id: String,
        /// Only while it has no outstanding invoices.
        #[arg(long)]
        currency: Option<String>,
        /// Where its months begin, such as Europe/Copenhagen.
        #[arg(long, value_name = "ZONE")]
        time_zone: Option<String>,
        /// When a declined charge is asked for again, such as 1d,3d,7d.
        #[arg(long, value_name = "TIMES", value_delimiter = ',')]
        ladder: Option<Vec<String>>,
        /// What the next person should know.
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
