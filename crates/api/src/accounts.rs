//! Accounts: the control totals of a day.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::Total;
use tollgate_domains::{invoices, payments};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::answer::source::Source;
use crate::contract::refusals::Reads;
use crate::request::body::wrong;
use crate::request::extract::Query;

/// A day in a zone; today and UTC unless said otherwise.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Day {
    /// Default: today.
    #[param(example = "2026-11-16")]
    pub(super) date: Option<String>,
    /// IANA time zone of the day. Default: UTC.
    #[param(example = "Europe/Berlin")]
    pub(super) zone: Option<String>,
}

impl Day {
    /// From its first moment to that of the next day: 23 to 25 hours.
    pub(super) fn range(&self, now: Timestamp) -> Result<(Timestamp, Timestamp), ApiError> {
        let zone = match &self.zone {
            None => TimeZone::UTC,
            Some(name) => TimeZone::get(name).map_err(|_| {
                wrong(
                    "zone",
                    "must be an IANA time zone such as \"Europe/Berlin\"",
                )
            })?,
        };
        let date: Date = match &self.date {
            None => now.to_zoned(zone.clone()).date(),
            Some(text) => text
                .parse()
                .map_err(|_| wrong("date", "must be a date such as \"2026-11-16\""))?,
        };
        let out_of_range = |_| wrong("date", "is out of range");
        let next = date.tomorrow().map_err(out_of_range)?;
        let from = date.to_zoned(zone.clone()).map_err(out_of_range)?;
        let to = next.to_zoned(zone).map_err(out_of_range)?;
        Ok((from.timestamp(), to.timestamp()))
    }
}

fn sums(totals: &[Total]) -> Vec<contract::TotalSum> {
    let mut sums: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    for total in totals {
        let (count, minor) = sums.entry(&total.currency).or_default();
        *count += total.count;
        *minor = minor.saturating_add(total.amount_minor);
    }
    let sum = |(currency, (count, minor)): (&str, (u64, i64))| contract::TotalSum {
        currency: currency.to_owned(),
        count,
        amount: amount(currency, minor),
    };
    sums.into_iter().map(sum).collect()
}

pub(super) fn amount(currency: &str, minor: i64) -> String {
    match Currency::from_code(currency) {
        Some(currency) => Money { minor, currency }.decimal(),
        None => minor.to_string(),
    }
}

impl Of<&Total> for contract::Bucket {
    fn of(total: &Total) -> Self {
        Self {
            amount: amount(&total.currency, total.amount_minor),
            status: total.status.clone(),
            currency: total.currency.clone(),
            count: total.count,
        }
    }
}

/// Control totals of a day, by status and currency.
#[utoipa::path(
    get, path = "/admin/totals", operation_id = "getTotals", tag = "accounts",
    params(Day),
    responses((status = 200, description = "Counts and amounts by status and currency.", body = contract::Totals), Reads),
)]
async fn totals(
    State(app): State<App>,
    Query(day): Query<Day>,
) -> Result<Json<contract::Totals>, ApiError> {
    let (from, to) = day.range(app.store.now().await?)?;
    let day = app.totals.of(from, to).await?;
    let mut found = vec![];
    for item_type in [payments::item_type(), invoices::item_type()] {
        let of = app.store.found_in(&item_type, Some(from), Some(to));
        found.push(of.await?);
    }
    Ok(Json(contract::Totals {
        from,
        to,
        as_of: day.as_of,
        payments: day.payments.iter().map(contract::Bucket::of).collect(),
        payment_sums: sums(&day.payments),
        invoice_sums: sums(&day.invoices),
        invoices: day.invoices.iter().map(contract::Bucket::of).collect(),
        source: contract::AnswerSource::of(Source::of(&found)),
    }))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(totals))
}
