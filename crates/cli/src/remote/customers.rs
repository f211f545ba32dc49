//! `tollgate customers …`.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::table::fields;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// One customer.
    Show { id: String },
    /// Makes a customer known. The same again changes nothing.
    Create {
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
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    let answer = match command {
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
    };
    shown.show(&answer, customer);
    Ok(())
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
