//! Payments: `POST /payments` and `GET /payments/{id}` are here; beside them the list and how a page of it is found, what
//! people change about a payment, and exports.

#[cfg(test)]
mod body_tests;
pub(crate) mod changes;
mod export;
pub(crate) mod list;
mod newest;
mod news;
mod payment;
pub(crate) mod search;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tollgate_contract as contract;
use tollgate_core::id::{FlowId, ItemId};
use tollgate_core::ports::{ItemView, Known};
use tollgate_dispatch::{foresee, meets_deadline};
use tollgate_domains::payments::{self, Accepted, PaymentRequest, PaymentStatus};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::answer::codes::Code;
use crate::answer::error::{ApiError, json_body};
use crate::answer::of::Of;
use crate::contract::refusals::Admits;
use crate::request::prefer::wait;

pub(super) use payment::{attempt, no_payment, payment_id, shown};

/// Accepts a payment and returns the time at which it will be sent.
///
/// Repeating the same request changes nothing and returns the payment's current status and time. If
/// you get no answer, send the request again. Requests are compared by content: `125.5` equals
/// `125.50`. A payment answered with 202 is durable: it gets a slot, or is refused with a reason,
/// or stays `INITIALIZING` with `whyNotRunning` and is tried again.
#[utoipa::path(
    post, path = "/payments", operation_id = "createPayment", tag = "payments",
    params(("Prefer" = Option<String>, Header,
        description = "`respond-async` to return at once, `wait=N` to wait up to N seconds (default 10, maximum 60)",
        example = "wait=5")),
    request_body = contract::NewPayment,
    responses(
        (status = 201, description = "Accepted, with a slot.", body = contract::AcceptedPayment),
        (status = 202, description = "Accepted and durable. The slot was not assigned within the wait.", body = contract::AcceptedPayment),
        (status = 200, description = "Already accepted with the same content. Returns its current status and time.", body = contract::AcceptedPayment),
        Admits,
    ),
)]
async fn create(
    State(app): State<App>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    let body = json_body(&headers, body)?;
    let payment = PaymentRequest::parse(&body).map_err(ApiError::invalid)?;
    let id = payment.payment_id.clone();
    let (status, body) = match app.intake.accept(payment, wait(&headers)).await? {
        Accepted::Planned { view, is_new: true } => {
            (StatusCode::CREATED, planned(&app, *view).await?)
        }
        Accepted::Planned { view, .. } => (StatusCode::OK, planned(&app, *view).await?),
        Accepted::Initializing { init_flow } => {
            let body = unplanned(&id, PaymentStatus::Initializing, &init_flow);
            (StatusCode::ACCEPTED, body)
        }
        Accepted::Cancelled { init_flow } => {
            let body = unplanned(&id, PaymentStatus::Cancelled, &init_flow);
            (StatusCode::OK, body)
        }
        Accepted::Archived(known) => (StatusCode::OK, archived_payment(&id, known)),
        Accepted::Erased => {
            let error = format!("payment {id} existed, and its data was erased; use a new id");
            return Err(ApiError::conflict(error).coded(Code::Erased));
        }
        Accepted::Conflict => {
            let error = format!(
                "payment {id} already exists with different content; use a new id for a changed payment"
            );
            return Err(ApiError::conflict(error).coded(Code::IdConflict));
        }
        Accepted::Invalid(details) => return Err(ApiError::invalid(details)),
        Accepted::Refused(details) => return Err(ApiError::refused(details)),
    };
    Ok((status, Json(body)).into_response())
}

/// By what is foreseen for its lane anyway: nothing more is read for this payment.
async fn planned(app: &App, view: ItemView) -> Result<contract::AcceptedPayment, ApiError> {
    let now = app.forecaster.lane(&view.lane).await?;
    let as_of = now
        .as_ref()
        .map_or(view.created_at, |lane| lane.table.as_of);
    let foreseen = foresee(&view, now.as_deref(), None, as_of);
    let meets = meets_deadline(&view, foreseen.as_ref());
    let foreseen = contract::Foreseen::of((foreseen, meets));
    let placed = view.placed();
    Ok(contract::AcceptedPayment {
        archived: view.archived.map(|from| from.day.to_string()),
        payment_id: view.item.id.to_string(),
        status: view.status,
        scheduled_time: Some(placed.scheduled),
        lane: Some(placed.lane.to_string()),
        foreseen,
        init_workflow_id: placed.init_flow.to_string(),
    })
}

/// It has ended, and its slot is in a file.
fn archived_payment(payment_id: &ItemId, known: Known) -> contract::AcceptedPayment {
    contract::AcceptedPayment {
        init_workflow_id: payments::first_init_flow(payment_id).to_string(),
        payment_id: payment_id.to_string(),
        status: known.status,
        scheduled_time: None,
        lane: None,
        foreseen: contract::Foreseen::default(),
        archived: Some(known.day.to_string()),
    }
}

fn unplanned(
    payment_id: &ItemId,
    status: PaymentStatus,
    init_flow: &FlowId,
) -> contract::AcceptedPayment {
    contract::AcceptedPayment {
        payment_id: payment_id.to_string(),
        status: status.as_str().to_owned(),
        scheduled_time: None,
        lane: None,
        foreseen: contract::Foreseen::default(),
        init_workflow_id: init_flow.to_string(),
        archived: None,
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(payment::show))
        .merge(list::router())
        .merge(changes::router())
}
