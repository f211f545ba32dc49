//! Invoices: create, show and reschedule one (here), lists, corrections, their customers and their schedules.

mod changes;
mod customers;
pub(crate) mod list;
mod newest;
mod occurrences;
mod schedules;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::id::{BatchId, FlowId, ItemId, LaneName, check_item_id};
use tollgate_core::item::QueueStatus;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{AuditEntry, ItemView};
use tollgate_domains::invoices::{self, CHECKED, InvoiceRequest};
use tollgate_domains::payments::parse_time;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::payments::{AttemptResponse, attempt};
use crate::api::answer::error::{ApiError, internal, json_body};
use crate::api::answer::sight::Sight;
use crate::api::answer::source::Source;
use crate::api::contract::refusals::{Admits, Changes, Finds};
use crate::api::contract::words;
use crate::api::items::foreseen::Foreseen;
use crate::api::items::timeline;
use crate::api::items::why::{Waits, waits};
use crate::api::request::body::{Body, parse, perhaps_because, wrong};
use crate::api::request::extract::Path;
use crate::door::auth::Caller;
use changes::SettledByResponse;
use schedules::ScheduleBody;

/// At most this much of an invoice's audit trail is part of its timeline, the newest.
const MOST_AUDITED: u32 = 200;

/// An invoice to charge.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewInvoice, example = json!({
    "invoiceId": "inv_1", "customerId": "c_1",
    "amount": {"value": "100.00", "currency": "DKK"}, "schedule": null
}))]
#[expect(dead_code, reason = "only its schema is used")]
struct InvoiceBody {
    #[schema(schema_with = words::id)]
    invoice_id: String,
    #[schema(schema_with = words::id)]
    customer_id: String,
    amount: Amount,
    /// When to charge the invoice. Default: the customer's schedule, or else the global one.
    schedule: Option<ScheduleBody>,
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Amount {
    /// Decimal number with at most as many fraction digits as the currency has.
    #[schema(pattern = r"^[0-9]+(\.[0-9]+)?$", example = "100.00")]
    value: String,
    /// ISO 4217 code. Must be the customer's currency.
    #[schema(pattern = "^[A-Z]{3}$", example = "DKK")]
    currency: String,
}

impl Amount {
    pub(super) fn read(&self) -> Result<Money, ApiError> {
        let unknown = || wrong("amount.currency", "must be an ISO 4217 currency code");
        let currency = Currency::from_code(&self.currency).ok_or_else(unknown)?;
        Money::parse(&self.value, currency).map_err(|why| wrong("amount.value", why))
    }
}

impl From<Money> for Amount {
    fn from(money: Money) -> Self {
        Self {
            value: money.decimal(),
            currency: money.currency.code().to_owned(),
        }
    }
}

/// The answer to an accepted invoice.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AcceptedInvoice)]
struct CreateResponse {
    #[schema(value_type = String, example = "inv_1")]
    invoice_id: ItemId,
    #[schema(example = "c_1")]
    customer_id: String,
    amount: Amount,
    #[schema(schema_with = words::invoice_status)]
    status: String,
    /// Time at which the invoice will be charged.
    scheduled_time: Timestamp,
    /// Warning: for example, the schedule fires every minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    warning: Option<String>,
}

/// Creates an invoice and returns the time at which it will be charged.
///
/// Repeating the same request changes nothing and answers 200 with the current status and amount.
/// Requests are compared by content: `100.0` equals `100.00`.
#[utoipa::path(
    post, path = "/invoices", operation_id = "createInvoice", tag = "invoices",
    request_body = InvoiceBody,
    responses(
        (status = 201, description = "Created and scheduled.", body = CreateResponse),
        (status = 200, description = "Already exists with the same content.", body = CreateResponse),
        Admits,
    ),
)]
async fn create(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = json_body(&headers, body)?;
    let invoice = InvoiceRequest::parse(&body).map_err(ApiError::invalid)?;
    let taken = app.billing.create(&invoice).await?;
    let status = if taken.repeat {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let body = CreateResponse {
        invoice_id: invoice.invoice_id,
        customer_id: invoice.customer_id,
        amount: taken.money.into(),
        status: taken.status,
        scheduled_time: taken.placed.scheduled,
        warning: taken.warning,
    };
    Ok((status, Json(body)).into_response())
}

/// An invoice.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Invoice)]
pub(super) struct InvoiceResponse {
    #[schema(value_type = String, example = "inv_1")]
    invoice_id: ItemId,
    #[schema(example = "c_1")]
    customer_id: String,
    amount: Amount,
    #[schema(schema_with = words::invoice_status)]
    status: String,
    /// Who marked the invoice as paid elsewhere, or null.
    settled_by: Option<SettledByResponse>,
    /// Time of the next charge, retry or query. Null when the invoice has ended.
    scheduled_time: Option<Timestamp>,
    #[schema(value_type = String, example = "invoices")]
    lane: LaneName,
    #[schema(schema_with = words::queue_status)]
    queue_status: QueueStatus,
    /// Current run, counted from 1. Each return to the queue starts a new run.
    run: u32,
    /// Number of sends so far. Pass it as `sends` when you resolve the payment.
    sends: u32,
    #[serde(flatten)]
    foreseen: Foreseen,
    /// Why the invoice is not running and until when. Null while it runs and when it has ended.
    why_not_running: Option<String>,
    #[schema(value_type = Option<String>)]
    exec_workflow_id: Option<FlowId>,
    /// The dispatcher's last batch with this item; `batchId` in the audit log.
    #[schema(value_type = Option<String>, example = "BATCH-0f3a9c5e7d214b68")]
    dispatch_batch_id: Option<BatchId>,
    attempts: Vec<AttemptResponse>,
    checks: Vec<CheckResponse>,
    timeline: Vec<timeline::Event>,
    source: Source,
    /// The day on which it ended, in UTC, if this answer comes from the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "2026-11-16")]
    archived: Option<String>,
}

/// Result of the checks before a charge.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CheckVerdict)]
struct CheckResponse {
    at: Timestamp,
    /// Name of the check; `all` if every check passed.
    #[schema(example = "not-paid")]
    check: String,
    #[schema(schema_with = words::verdict)]
    verdict: String,
    reason: String,
}

/// One invoice with its schedule, attempts and timeline.
#[utoipa::path(
    get, path = "/invoices/{id}", operation_id = "getInvoice", tag = "invoices",
    params(("id" = String, Path, description = "The invoice's id.", example = "inv_1")),
    responses((status = 200, description = "The current invoice.", body = InvoiceResponse), Finds),
)]
async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<InvoiceResponse>, ApiError> {
    shown(&app, &id).await
}

/// An id that an invoice can have; another is no invoice's.
pub(super) fn invoice_id(id: &str) -> Result<ItemId, ApiError> {
    let known = check_item_id(id).map(|()| ItemId::new(id));
    known.map_err(|_| ApiError::not_found(format!("there is no invoice {id}")))
}

/// Everything there is to say about an invoice now.
pub(super) async fn shown(app: &App, id: &str) -> Result<Json<InvoiceResponse>, ApiError> {
    let view = app.billing.invoice(&invoice_id(id)?).await?;
    let waits = waits(app, &view).await?;
    let audit = app.store.audit(Some(&view.item), MOST_AUDITED).await?;
    let source = app.source_of(&view).await?;
    response(view, &audit, waits, source).map(Json)
}

fn response(
    view: ItemView,
    audit: &[AuditEntry],
    waits: Waits,
    source: Source,
) -> Result<InvoiceResponse, ApiError> {
    let kept = invoices::document(&view).map_err(|error| internal(&error.to_string()))?;
    let attempts = view.attempts.iter();
    let checks = audit.iter().rev().filter(|entry| entry.action == CHECKED);
    Ok(InvoiceResponse {
        timeline: timeline::timeline(&view, audit),
        sends: view.sends(),
        checks: checks.map(check).collect(),
        attempts: attempts.map(|it| attempt(it, &Sight::WHOLE)).collect(),
        source,
        archived: view.archived.as_ref().map(|from| from.day.to_string()),
        scheduled_time: view.finished_at.is_none().then_some(view.due),
        invoice_id: view.item.id,
        settled_by: kept.settled_by.map(Into::into),
        customer_id: kept.customer_id,
        amount: view.money.into(),
        status: view.status,
        lane: view.lane,
        queue_status: view.queue_status,
        run: view.run,
        foreseen: waits.foreseen,
        why_not_running: waits.why,
        exec_workflow_id: view.exec_flow,
        dispatch_batch_id: view.dispatch_batch,
    })
}

fn check(entry: &AuditEntry) -> CheckResponse {
    let (check, said) = entry.detail.split_once(": ").unwrap_or(("", &entry.detail));
    let (verdict, reason) = said.split_once(": ").unwrap_or(("", said));
    CheckResponse {
        at: entry.at,
        check: check.to_owned(),
        verdict: verdict.to_owned(),
        reason: reason.to_owned(),
    }
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = InvoiceReschedule)]
struct RescheduleRequest {
    /// Earliest time. Default: the next time of its schedule.
    #[schema(example = "2026-11-16T16:00:00-07:00")]
    at: Option<String>,
    /// Reason, recorded in the audit log.
    #[schema(min_length = 1, max_length = 500)]
    reason: Option<String>,
}

/// Reschedules a waiting invoice. A FAILED invoice is charged again.
#[utoipa::path(
    post, path = "/invoices/{id}/reschedule", operation_id = "rescheduleInvoice", tag = "invoices",
    params(("id" = String, Path, description = "The invoice's id.", example = "inv_1")),
    request_body = RescheduleRequest,
    responses(
        (status = 200, description = "Rescheduled, with a new slot.", body = InvoiceResponse),
        (status = 422, description = "Its schedule has no next time.", body = crate::api::answer::error::ErrorBody),
        Changes,
    ),
)]
async fn reschedule(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<InvoiceResponse>, ApiError> {
    let request: RescheduleRequest = parse(&headers, body)?;
    let at = request.at.map(|text| {
        let example = "must be a time such as \"2026-11-16T16:00:00-07:00\"";
        parse_time(&text).ok_or_else(|| wrong("at", example))
    });
    let author = perhaps_because(&caller, request.reason)?;
    let known = invoice_id(&id)?;
    app.billing
        .reschedule(&known, at.transpose()?, author)
        .await?;
    shown(&app, &id).await
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(show))
        .routes(routes!(reschedule))
        .merge(list::router())
        .merge(changes::router())
        .merge(occurrences::router())
        .merge(customers::router())
        .merge(schedules::router())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use tollgate_domains::invoices::{Customer, InvoiceRequest};

    fn schema(name: &str) -> Value {
        let document: Value = serde_json::from_str(crate::openapi_json()).unwrap();
        document["components"]["schemas"][name].clone()
    }

    #[test]
    fn the_examples_are_an_invoice_and_its_customer() {
        let invoice = InvoiceRequest::parse(&schema("NewInvoice")["example"]).unwrap();
        let customer = Customer::parse(&schema("Customer")["example"]).unwrap();
        assert_eq!(invoice.customer_id, customer.customer_id);
        assert_eq!(invoice.money.currency, customer.currency);
    }

    #[test]
    fn what_the_schema_requires_the_domain_requires_and_no_more() {
        let nothing = Value::Object(serde_json::Map::new());
        let invoice = InvoiceRequest::parse(&nothing).unwrap_err();
        let customer = Customer::parse(&nothing).unwrap_err();
        for (name, wrong) in [("NewInvoice", invoice), ("Customer", customer)] {
            let schema = schema(name);
            let required = schema["required"].as_array().unwrap();
            let mut required: Vec<&str> = required.iter().filter_map(Value::as_str).collect();
            required.sort_unstable();
            assert_eq!(required, wrong.keys().collect::<Vec<_>>(), "{name}");
        }
    }
}
