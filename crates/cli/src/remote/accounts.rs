//! `tollgate totals`, and the days that accounts are made for.

use serde_json::Value;

use super::Shown;
use super::client::{Client, quoted};
use super::table::{rows, table};

#[derive(Debug, clap::Args)]
pub(crate) struct Day {
    /// Day, such as 2026-11-16. Default: today.
    #[arg(long)]
    date: Option<String>,
    /// IANA time zone of the day.
    #[arg(long, default_value = "UTC")]
    zone: String,
}

impl Day {
    /// As a query, to be continued with `&`.
    pub(super) fn query(&self) -> String {
        let zone = quoted(&self.zone);
        match &self.date {
            Some(date) => format!("?zone={zone}&date={}", quoted(date)),
            None => format!("?zone={zone}"),
        }
    }
}

pub(super) async fn totals(client: &Client, shown: &Shown, day: &Day) -> anyhow::Result<()> {
    let answer = client.get(&format!("/admin/totals{}", day.query())).await?;
    shown.show(&answer, |answer| {
        let fields = ["status", "currency", "count", "amount"];
        let rows = rows(&answer["payments"], &fields);
        let count: u64 = answer["payments"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|bucket| bucket["count"].as_u64())
            .sum();
        let [from, to, as_of] = ["from", "to", "asOf"].map(|name| text(&answer[name]));
        let paid = format!(
            "{}{count} payments accepted from {from} to {to}, as of {as_of}, from {}",
            table(&fields, &rows),
            super::table::source(&answer["source"])
        );
        let billed = super::table::rows(&answer["invoices"], &fields);
        if billed.is_empty() {
            return paid;
        }
        format!("{paid}\n\nInvoices\n{}", table(&fields, &billed))
    });
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
