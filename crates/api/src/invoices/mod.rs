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
use tollgate_contract as contract;
use tollgate_core::id::{ItemId, check_item_id};
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{AuditEntry, ItemView};
use tollgate_domains::invoices::{self, CHECKED, InvoiceRequest};
use tollgate_domains::payments::parse_time;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::payments::attempt;
use crate::answer::error::{ApiError, internal, json_body};
use crate::answer::of::Of;
use crate::answer::sight::Sight;
use crate::answer::source::Source;
use crate::contract::refusals::{Admits, Changes, Finds};
use crate::door::auth::Caller;
use crate::items::timeline;
use crate::items::why::{Waits, waits};
use crate::request::body::{Body, parse, perhaps_because, wrong};
use crate::request::extract::Path;

/// At most this much of an invoice's audit trail is part of its timeline, the newest.
const MOST_AUDITED: u32 = 200;

fn read_amount(amount: &contract::Amount) -> Result<Money, ApiError> {
    let unknown = || wrong("amount.currency", "must be an ISO 4217 currency code");
    let currency = Currency::from_code(&amount.currency).ok_or_else(unknown)?;
    Money::parse(&amount.value, currency).map_err(|why| wrong("amount.value", why))
}

impl Of<Money> for contract::Amount {
    fn of(money: Money) -> Self {
        Self {
            value: money.decimal(),
            currency: money.currency.code().to_owned(),
        }
    }
}

/// Creates an invoice and returns the time at which it will be charged.
///
/// Repeating the same request changes nothing and answers 200 with the current status and amount.
/// Requests are compared by content: `100.0` equals `100.00`.
#[utoipa::path(
    post, path = "/invoices", operation_id = "createInvoice", tag = "invoices",
    request_body = contract::NewInvoice,
    responses(
        (status = 201, description = "Created and scheduled.", body = contract::AcceptedInvoice),
        (status = 200, description = "Already exists with the same content.", body = contract::AcceptedInvoice),
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
    let body = contract::AcceptedInvoice {
        invoice_id: invoice.invoice_id.to_string(),
        customer_id: invoice.customer_id,
        amount: contract::Amount::of(taken.money),
        status: taken.status,
        scheduled_time: taken.placed.map(|placed| placed.scheduled),
        archived: taken.archived.map(|day| day.to_string()),
        warning: taken.warning,
    };
    Ok((status, Json(body)).into_response())
}

/// One invoice with its schedule, attempts and timeline.
#[utoipa::path(
    get, path = "/invoices/{id}", operation_id = "getInvoice", tag = "invoices",
    params(("id" = String, Path, description = "The invoice's id.", example = "inv_1")),
    responses((status = 200, description = "The current invoice.", body = contract::Invoice), Finds),
)]
async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<contract::Invoice>, ApiError> {
    shown(&app, &id).await
}

/// An id that an invoice can have; another is no invoice's.
pub(super) fn invoice_id(id: &str) -> Result<ItemId, ApiError> {
    let known = check_item_id(id).map(|()| ItemId::new(id));
    known.map_err(|_| ApiError::not_found(format!("there is no invoice {id}")))
}

/// Everything there is to say about an invoice now.
pub(super) async fn shown(app: &App, id: &str) -> Result<Json<contract::Invoice>, ApiError> {
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
) -> Result<contract::Invoice, ApiError> {
    let kept = invoices::document(&view).map_err(|error| internal(&error.to_string()))?;
    let attempts = view.attempts.iter();
    let checks = audit.iter().rev().filter(|entry| entry.action == CHECKED);
    Ok(contract::Invoice {
        timeline: timeline::timeline(&view, audit),
        sends: view.sends(),
        checks: checks.map(check).collect(),
        attempts: attempts.map(|it| attempt(it, &Sight::WHOLE)).collect(),
        source: contract::AnswerSource::of(source),
        archived: view.archived.as_ref().map(|from| from.day.to_string()),
        scheduled_time: view.finished_at.is_none().then_some(view.due),
        invoice_id: view.item.id.to_string(),
        settled_by: kept.settled_by.map(contract::SettledBy::of),
        customer_id: kept.customer_id,
        amount: contract::Amount::of(view.money),
        status: view.status,
        lane: view.lane.to_string(),
        queue_status: view.queue_status.to_string(),
        run: view.run,
        foreseen: waits.foreseen,
        why_not_running: waits.why,
        exec_workflow_id: view.exec_flow.map(|flow| flow.to_string()),
        dispatch_batch_id: view.dispatch_batch.map(|batch| batch.to_string()),
    })
}

fn check(entry: &AuditEntry) -> contract::CheckVerdict {
    let (check, said) = entry.detail.split_once(": ").unwrap_or(("", &entry.detail));
    let (verdict, reason) = said.split_once(": ").unwrap_or(("", said));
    contract::CheckVerdict {
        at: entry.at,
        check: check.to_owned(),
        verdict: verdict.to_owned(),
        reason: reason.to_owned(),
    }
}

/// Reschedules a waiting invoice. A FAILED invoice is charged again.
#[utoipa::path(
    post, path = "/invoices/{id}/reschedule", operation_id = "rescheduleInvoice", tag = "invoices",
    params(("id" = String, Path, description = "The invoice's id.", example = "inv_1")),
    request_body = contract::InvoiceReschedule,
    responses(
        (status = 200, description = "Rescheduled, with a new slot.", body = contract::Invoice),
        (status = 422, description = "Its schedule has no next time.", body = tollgate_contract::Error),
        Changes,
    ),
)]
async fn reschedule(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Invoice>, ApiError> {
    let request: contract::InvoiceReschedule = parse(&headers, body)?;
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
