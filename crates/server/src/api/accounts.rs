//! Accounts of a day: control totals, and the rate certificate of a lane.

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::Total;
use tollgate_domains::payments;

use super::App;
use super::body::wrong;
use super::error::ApiError;
use super::picture;

/// A day in a zone; today and UTC unless said otherwise.
#[derive(Debug, Deserialize)]
struct Day {
    date: Option<String>,
    zone: Option<String>,
    lane: Option<String>,
    format: Option<String>,
}

impl Day {
    /// From its first moment to that of the next day: 23 to 25 hours.
    fn range(&self, now: Timestamp) -> Result<(Timestamp, Timestamp), ApiError> {
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

#[derive(Debug, Serialize)]
struct TotalsResponse {
    from: Timestamp,
    to: Timestamp,
    payments: Vec<Bucket>,
}

/// Every payment taken in on that day is in exactly one bucket.
#[derive(Debug, Serialize)]
struct Bucket {
    status: String,
    currency: String,
    count: u64,
    amount: String,
}

impl From<Total> for Bucket {
    fn from(total: Total) -> Self {
        let amount = match Currency::from_code(&total.currency) {
            Some(currency) => Money {
                minor: total.amount_minor,
                currency,
            }
            .decimal(),
            None => total.amount_minor.to_string(),
        };
        Self {
            status: total.status,
            currency: total.currency,
            count: total.count,
            amount,
        }
    }
}

async fn totals(
    State(app): State<App>,
    Query(day): Query<Day>,
) -> Result<Json<TotalsResponse>, ApiError> {
    let (from, to) = day.range(app.store.now().await?)?;
    let totals = app.store.totals(&payments::item_type(), from, to).await?;
    Ok(Json(TotalsResponse {
        from,
        to,
        payments: totals.into_iter().map(Bucket::from).collect(),
    }))
}

async fn certificate(State(app): State<App>, Query(day): Query<Day>) -> Result<Response, ApiError> {
    let (from, to) = day.range(app.store.now().await?)?;
    let lane = app.lane_named(day.lane).await?.name;
    let certificate = app.store.certificate(&lane, from, to).await?;
    match day.format.as_deref() {
        None | Some("json") => Ok(Json(certificate).into_response()),
        Some("text") => Ok(certificate.to_string().into_response()),
        Some("svg") => Ok(picture::svg(picture::rate(&certificate))),
        Some(_) => Err(wrong("format", "must be \"json\", \"text\" or \"svg\"")),
    }
}

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/admin/totals", get(totals))
        .route("/admin/rate-limit/certificate", get(certificate))
}
