//! What people do to a payment: cancel one that waits, give it another time, let a held one go, or send
//! a refused one again.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::id::Item;
use tollgate_core::ports::{ActionResult, Author, StoreResult};
use tollgate_domains::archived::{archived, cannot_act};
use tollgate_domains::payments;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{no_payment, payment_id, shown};
use crate::App;
use crate::answer::codes::Code;
use crate::answer::error::ApiError;
use crate::contract::refusals::Changes;
use crate::door::auth::Caller;
use crate::request::body::{Body, author, parse, wrong};
use crate::request::extract::Path;

pub(crate) use tollgate_contract::Because;

/// Cancels a payment that has not been paid.
///
/// Possible until the send begins, and again while every attempt so far definitely failed. 409
/// while an attempt is open or its outcome is unknown. After a 200 the payment is not sent.
#[utoipa::path(
    post, path = "/payments/{id}/cancel", operation_id = "cancelPayment", tag = "payments",
    params(("id" = String, Path, description = "The payment's id.", example = "pay_001")),
    request_body = contract::Because,
    responses((status = 200, description = "Cancelled.", body = contract::Payment), Changes),
)]
async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Payment>, ApiError> {
    let author = author(&caller, parse::<contract::Because>(&headers, body)?.reason)?;
    let item = payments::item(&payment_id(&id)?);
    let done = withdraw(&app, &item, author).await?;
    answer(&app, &caller, &id, "cancelled", done).await
}

/// Whether it is planned or not. It may be planned between the two questions, but only once.
async fn withdraw(app: &App, item: &Item, author: Author) -> StoreResult<ActionResult> {
    let status = payments::cancelled;
    let done = app.store.cancel(item, status(), author.clone()).await?;
    if done != ActionResult::NoSuchItem {
        return Ok(done);
    }
    let done = app.store.withdraw(item, author.clone()).await?;
    if done != ActionResult::NoSuchItem {
        return Ok(done);
    }
    app.store.cancel(item, status(), author).await
}

/// Releases a held payment: it runs although it is late, or although the current rules hold it.
#[utoipa::path(
    post, path = "/payments/{id}/release", operation_id = "releasePayment", tag = "payments",
    params(("id" = String, Path, description = "The payment's id.", example = "pay_001")),
    request_body = contract::Because,
    responses((status = 200, description = "Released; the payment runs now.", body = contract::Payment), Changes),
)]
async fn release(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Payment>, ApiError> {
    let author = author(&caller, parse::<contract::Because>(&headers, body)?.reason)?;
    let item = payments::item(&payment_id(&id)?);
    let done = app.store.release_held(&item, author).await?;
    answer(&app, &caller, &id, "released", done).await
}

/// Reschedules a payment that has not been paid. The bounds are those of `executeAt`. A payment
/// without a slot yet gets one at or after the new time.
///
/// Possible until the send begins, and again while every attempt so far definitely failed. 409
/// while an attempt is open or its outcome is unknown. After a 200 the payment is not sent before
/// the new time.
#[utoipa::path(
    post, path = "/payments/{id}/reschedule", operation_id = "reschedulePayment", tag = "payments",
    params(("id" = String, Path, description = "The payment's id.", example = "pay_001")),
    request_body = contract::RescheduleRequest,
    responses((status = 200, description = "Rescheduled, with a new slot.", body = contract::Payment), Changes),
)]
async fn reschedule(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Payment>, ApiError> {
    let request: contract::RescheduleRequest = parse(&headers, body)?;
    let author = author(&caller, request.reason)?;
    let at = payments::parse_time(&request.execute_at).ok_or_else(|| {
        wrong(
            "executeAt",
            "must be a time such as \"2026-11-16T16:00:00-07:00\"",
        )
    })?;
    let now = app.store.now().await?;
    if let Some(why) = payments::out_of_bounds(at, now) {
        return Err(wrong("executeAt", why));
    }
    let item = payments::item(&payment_id(&id)?);
    let done = move_to(&app, &item, at, author).await?;
    answer(&app, &caller, &id, "rescheduled", done).await
}

/// Whether it is planned or not. It may be planned between the two questions, but only once.
async fn move_to(
    app: &App,
    item: &Item,
    to: Timestamp,
    author: Author,
) -> StoreResult<ActionResult> {
    let done = app.store.reschedule(item, to, author.clone()).await?;
    if done != ActionResult::NoSuchItem {
        return Ok(done);
    }
    let done = app.store.move_request(item, to, author.clone()).await?;
    if done != ActionResult::NoSuchItem {
        return Ok(done);
    }
    app.store.reschedule(item, to, author).await
}

/// Reopens a payment that the bank refused, to send it again.
///
/// The payment is `SCHEDULED` again with a new slot. Possible only if every attempt was definitely refused.
#[utoipa::path(
    post, path = "/payments/{id}/reopen", operation_id = "reopenPayment", tag = "payments",
    params(("id" = String, Path, description = "The payment's id.", example = "pay_001")),
    request_body = contract::Because,
    responses((status = 200, description = "Rescheduled, with a new slot.", body = contract::Payment), Changes),
)]
async fn reopen(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Payment>, ApiError> {
    let author = author(&caller, parse::<contract::Because>(&headers, body)?.reason)?;
    let item = payments::item(&payment_id(&id)?);
    // Of what is archived, or in a file only, the answer says so.
    let view = app.store.item(&item).await?;
    let view = view.filter(|view| view.archived.is_none());
    let done = match view.as_ref().map(payments::refuses_reopen) {
        None => ActionResult::NoSuchItem,
        Some(Some(why)) => ActionResult::Refused(why),
        Some(None) => {
            let now = app.store.now().await?;
            app.store
                .reopen(&item, payments::reopened(), now, author)
                .await?
        }
    };
    answer(&app, &caller, &id, "reopened", done).await
}

/// The payment as it is now, or why not.
async fn answer(
    app: &App,
    caller: &Caller,
    id: &str,
    verb: &'static str,
    done: ActionResult,
) -> Result<Json<contract::Payment>, ApiError> {
    match done {
        ActionResult::Yes => {
            app.acted(caller.name(), verb, id);
            shown(app, caller, id).await
        }
        ActionResult::NoSuchItem => {
            let request = app.store.request(&payments::item(&payment_id(id)?)).await?;
            let known = archived(&*app.store, &payments::item(&payment_id(id)?), "").await?;
            if let Some(known) = known {
                let why = cannot_act(&known);
                let error = format!("payment {id} cannot be {verb}: {why}");
                return Err(ApiError::conflict(error).coded(Code::Archived));
            }
            Err(match request {
                None => no_payment(id),
                Some(_) => {
                    ApiError::conflict(format!("payment {id} cannot be {verb}: it has no slot yet"))
                }
            })
        }
        ActionResult::Refused(why) => Err(ApiError::conflict(format!(
            "payment {id} cannot be {verb}: {why}"
        ))),
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(cancel))
        .routes(routes!(release))
        .routes(routes!(reschedule))
        .routes(routes!(reopen))
}
