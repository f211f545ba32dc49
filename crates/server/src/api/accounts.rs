//! Accounts: the control totals of a day.

use axum::Json;
use axum::extract::State;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::Total;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::body::wrong;
use super::error::ApiError;
use super::extract::Query;
use super::refusals::Reads;
use super::words;

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

/// All payments and invoices accepted on that day, each counted in exactly one status.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Totals)]
struct TotalsResponse {
    from: Timestamp,
    to: Timestamp,
    /// Time of the computation. Totals that take long are cached for some seconds.
    as_of: Timestamp,
    payments: Vec<Bucket>,
    invoices: Vec<Bucket>,
}

#[derive(Debug, Serialize, ToSchema)]
struct Bucket {
    #[schema(schema_with = words::money_status)]
    status: String,
    #[schema(example = "USD")]
    currency: String,
    count: u64,
    #[schema(example = "125.50")]
    amount: String,
}

impl From<&Total> for Bucket {
    fn from(total: &Total) -> Self {
        let amount = match Currency::from_code(&total.currency) {
            Some(currency) => Money {
                minor: total.amount_minor,
                currency,
            }
            .decimal(),
            None => total.amount_minor.to_string(),
        };
        Self {
            status: total.status.clone(),
            currency: total.currency.clone(),
            count: total.count,
            amount,
        }
    }
}

/// Control totals of a day, by status and currency.
#[utoipa::path(
    get, path = "/admin/totals", operation_id = "getTotals", tag = "accounts",
    params(Day),
    responses((status = 200, description = "Counts and amounts by status and currency.", body = TotalsResponse), Reads),
)]
async fn totals(
    State(app): State<App>,
    Query(day): Query<Day>,
) -> Result<Json<TotalsResponse>, ApiError> {
    let (from, to) = day.range(app.store.now().await?)?;
    let day = app.totals.of(from, to).await?;
    Ok(Json(TotalsResponse {
        from,
        to,
        as_of: day.as_of,
        payments: day.payments.iter().map(Bucket::from).collect(),
        invoices: day.invoices.iter().map(Bucket::from).collect(),
    }))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(totals))
}
