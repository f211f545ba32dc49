//! `tollgate totals`, and the days that accounts are made for.

use tollgate_client::Client;
use tollgate_client::contract::{Bucket, Totals};

use super::Shown;
use super::table::{row, source, status_word, table};

#[derive(Debug, clap::Args)]
pub(crate) struct Day {
    /// Day, such as 2026-11-16. Default: today.
    #[arg(long)]
    date: Option<String>,
    /// IANA time zone of the day.
    #[arg(long, default_value = "UTC")]
    zone: String,
}

impl From<Day> for tollgate_client::Day {
    fn from(day: Day) -> Self {
        Self {
            date: day.date,
            zone: Some(day.zone),
        }
    }
}

pub(super) async fn totals(client: &Client, shown: &Shown, day: Day) -> anyhow::Result<()> {
    shown.show(&client.totals(&day.into()).await?, text);
    Ok(())
}

fn text(totals: &Totals) -> String {
    let count: u64 = totals.payments.iter().map(|bucket| bucket.count).sum();
    let paid = format!(
        "{}{count} payments accepted from {} to {}, as of {}, from {}",
        buckets(&totals.payments),
        totals.from,
        totals.to,
        totals.as_of,
        source(&totals.source)
    );
    if totals.invoices.is_empty() {
        return paid;
    }
    format!("{paid}\n\nInvoices\n{}", buckets(&totals.invoices))
}

fn buckets(buckets: &[Bucket]) -> String {
    let rows: Vec<Vec<String>> = buckets
        .iter()
        .map(|it| {
            row(&[
                &status_word(&it.status),
                &it.currency,
                &it.count,
                &it.amount,
            ])
        })
        .collect();
    table(&["status", "currency", "count", "amount"], &rows)
}
