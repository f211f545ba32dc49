//! `/billing/schedules`: when invoices are charged, for all, for a customer's, for one.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use jiff::tz::TimeZone;
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::id::check_item_id;
use tollgate_domains::invoices::{Level, ScheduleInForce, ScheduleText};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::{Changes, Finds, Takes};
use crate::door::auth::Caller;
use crate::request::body::{Body, parse, perhaps_because};
use crate::request::extract::{Path, Query};

fn read(change: contract::ScheduleChange) -> (ScheduleText, Option<String>) {
    let text = ScheduleText {
        cron: change.cron,
        time_zone: change.time_zone,
        calendar: change.calendar,
    };
    (text, change.reason)
}

impl Of<ScheduleInForce> for contract::ScheduleInForce {
    fn of(told: ScheduleInForce) -> Self {
        let setting = told.setting;
        Self {
            cron: told.text.cron,
            time_zone: told.text.time_zone,
            calendar: told.text.calendar,
            next_occurrences: told.next,
            warning: told.warning,
            version: setting.as_ref().map(|setting| setting.version),
            since: setting.as_ref().map(|setting| setting.created_at),
            actor: setting.as_ref().map(|setting| setting.author.actor.clone()),
            reason: setting.map(|setting| setting.author.reason),
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Deletion {
    /// Reason, recorded in the audit log.
    #[param(min_length = 1, max_length = 500)]
    reason: Option<String>,
    /// Remove the schedule even if outstanding invoices use it. Queued invoices keep their time;
    /// after that the less specific schedule applies. Has no effect on the global schedule.
    force: Option<bool>,
}

type ScheduleResult = Result<Json<contract::ScheduleInForce>, ApiError>;

async fn get(app: &App, level: Level) -> ScheduleResult {
    let told = app.billing.schedules().get(&level).await?;
    Ok(Json(contract::ScheduleInForce::of(told)))
}

async fn put(
    app: &App,
    caller: &Caller,
    level: Level,
    headers: &HeaderMap,
    body: Body,
) -> ScheduleResult {
    let (text, reason) = read(parse(headers, body)?);
    let author = perhaps_because(caller, reason)?;
    let told = app.billing.schedules().put(&level, text, author).await?;
    app.acted(caller.name(), "schedule written", "schedule");
    Ok(Json(contract::ScheduleInForce::of(told)))
}

async fn delete(
    app: &App,
    caller: &Caller,
    level: Level,
    deletion: Deletion,
) -> Result<StatusCode, ApiError> {
    let author = perhaps_because(caller, deletion.reason)?;
    let force = deletion.force.unwrap_or(false);
    let schedules = app.billing.schedules();
    schedules.delete(&level, force, author).await?;
    app.acted(caller.name(), "schedule deleted", "schedule");
    Ok(StatusCode::NO_CONTENT)
}

fn customer(id: &str) -> Result<Level, ApiError> {
    let known = check_item_id(id).map(|()| Level::Customer(id.to_owned()));
    known.map_err(|_| ApiError::not_found(format!("there is no customer {id}")))
}

fn invoice(id: &str) -> Result<Level, ApiError> {
    let known = check_item_id(id).map(|()| Level::Invoice(id.to_owned()));
    known.map_err(|_| ApiError::not_found(format!("there is no invoice {id}")))
}

/// The global schedule, for customers and invoices without their own. Default: the first of the month.
#[utoipa::path(
    get, path = "/billing/schedules/global", operation_id = "getGlobalSchedule", tag = "invoices",
    responses((status = 200, description = "The schedule in force.", body = contract::ScheduleInForce), Finds),
)]
async fn get_global(State(app): State<App>) -> ScheduleResult {
    get(&app, Level::Global).await
}

/// Changes the global schedule. Queued invoices keep their time.
#[utoipa::path(
    put, path = "/billing/schedules/global", operation_id = "putGlobalSchedule", tag = "invoices",
    request_body = contract::ScheduleChange,
    responses((status = 200, description = "The schedule now in force, with its next five times.", body = contract::ScheduleInForce), Changes),
)]
async fn put_global(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> ScheduleResult {
    put(&app, &caller, Level::Global, &headers, body).await
}

/// Always answers 409: the global schedule cannot be removed. Replace it instead.
#[utoipa::path(
    delete, path = "/billing/schedules/global", operation_id = "deleteGlobalSchedule", tag = "invoices",
    params(Deletion),
    responses((status = 204, description = "Never returned."), Changes),
)]
async fn delete_global(
    State(app): State<App>,
    caller: Caller,
    Query(deletion): Query<Deletion>,
) -> Result<StatusCode, ApiError> {
    delete(&app, &caller, Level::Global, deletion).await
}

/// A customer's own schedule.
#[utoipa::path(
    get, path = "/billing/schedules/customer/{id}", operation_id = "getCustomerSchedule", tag = "invoices",
    params(("id" = String, Path, description = "The customer's id.", example = "c_1")),
    responses((status = 200, description = "The schedule in force.", body = contract::ScheduleInForce), Finds),
)]
async fn get_customer(State(app): State<App>, Path(id): Path<String>) -> ScheduleResult {
    get(&app, customer(&id)?).await
}

/// Sets a customer's own schedule. Queued invoices keep their time.
#[utoipa::path(
    put, path = "/billing/schedules/customer/{id}", operation_id = "putCustomerSchedule", tag = "invoices",
    params(("id" = String, Path, description = "The customer's id.", example = "c_1")),
    request_body = contract::ScheduleChange,
    responses((status = 200, description = "The schedule now in force, with its next five times.", body = contract::ScheduleInForce), Changes),
)]
async fn put_customer(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> ScheduleResult {
    put(&app, &caller, customer(&id)?, &headers, body).await
}

/// Removes a customer's own schedule. Queued invoices keep their time.
///
/// 409 with the number of outstanding invoices that use it, unless `force` is true.
#[utoipa::path(
    delete, path = "/billing/schedules/customer/{id}", operation_id = "deleteCustomerSchedule", tag = "invoices",
    params(("id" = String, Path, description = "The customer's id.", example = "c_1"), Deletion),
    responses((status = 204, description = "Removed; the global schedule now applies."), Changes),
)]
async fn delete_customer(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(deletion): Query<Deletion>,
) -> Result<StatusCode, ApiError> {
    delete(&app, &caller, customer(&id)?, deletion).await
}

/// An invoice's own schedule, if one was set after the invoice was created.
#[utoipa::path(
    get, path = "/billing/schedules/invoice/{id}", operation_id = "getInvoiceSchedule", tag = "invoices",
    params(("id" = String, Path, description = "The invoice's id.", example = "inv_1")),
    responses((status = 200, description = "The schedule in force.", body = contract::ScheduleInForce), Finds),
)]
async fn get_invoice(State(app): State<App>, Path(id): Path<String>) -> ScheduleResult {
    get(&app, invoice(&id)?).await
}

/// Sets an invoice's own schedule. It applies after the invoice's next time, or when the invoice is
/// rescheduled.
#[utoipa::path(
    put, path = "/billing/schedules/invoice/{id}", operation_id = "putInvoiceSchedule", tag = "invoices",
    params(("id" = String, Path, description = "The invoice's id.", example = "inv_1")),
    request_body = contract::ScheduleChange,
    responses((status = 200, description = "The schedule now in force, with its next five times.", body = contract::ScheduleInForce), Changes),
)]
async fn put_invoice(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> ScheduleResult {
    put(&app, &caller, invoice(&id)?, &headers, body).await
}

/// Removes an invoice's own schedule, including the one it was created with.
///
/// 409 while the invoice is outstanding, unless `force` is true.
#[utoipa::path(
    delete, path = "/billing/schedules/invoice/{id}", operation_id = "deleteInvoiceSchedule", tag = "invoices",
    params(("id" = String, Path, description = "The invoice's id.", example = "inv_1"), Deletion),
    responses((status = 204, description = "Removed."), Changes),
)]
async fn delete_invoice(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Query(deletion): Query<Deletion>,
) -> Result<StatusCode, ApiError> {
    delete(&app, &caller, invoice(&id)?, deletion).await
}

/// Previews the next five times of a schedule. Nothing is stored. Default time zone: UTC.
#[utoipa::path(
    post, path = "/billing/schedules/preview", operation_id = "previewSchedule", tag = "invoices",
    request_body = contract::Schedule,
    responses((status = 200, description = "The next five times.", body = contract::ScheduleInForce), Takes),
)]
async fn preview(State(app): State<App>, headers: HeaderMap, body: Body) -> ScheduleResult {
    let body: contract::Schedule = parse(&headers, body)?;
    let text = ScheduleText {
        cron: body.cron,
        time_zone: body.time_zone,
        calendar: body.calendar,
    };
    let told = app
        .billing
        .schedules()
        .preview(text, &TimeZone::UTC)
        .await?;
    Ok(Json(contract::ScheduleInForce::of(told)))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(get_global, put_global, delete_global))
        .routes(routes!(get_customer, put_customer, delete_customer))
        .routes(routes!(get_invoice, put_invoice, delete_invoice))
        .routes(routes!(preview))
}
