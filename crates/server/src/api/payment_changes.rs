//! What people do to a payment that waits: cancel it, give it another time, or let a held one go.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::Value;
use tollgate_core::id::ItemId;
use tollgate_core::ports::Intervened;
use tollgate_domains::payments;

use super::App;
use super::body::{Body, author, parse, wrong};
use super::error::ApiError;
use super::payments::told;
use crate::auth::Caller;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Because {
    reason: String,
}

async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let author = author(&caller, parse::<Because>(&headers, body)?.reason)?;
    let item = payments::item(&ItemId::new(&id));
    let done = app
        .store
        .cancel(&item, payments::cancelled(), author)
        .await?;
    answer(&app, &id, "cancelled", done).await
}

async fn release(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let author = author(&caller, parse::<Because>(&headers, body)?.reason)?;
    let item = payments::item(&ItemId::new(&id));
    let done = app.store.release_held(&item, author).await?;
    answer(&app, &id, "released", done).await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RescheduleRequest {
    execute_at: String,
    reason: String,
}

async fn reschedule(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let request: RescheduleRequest = parse(&headers, body)?;
    let author = author(&caller, request.reason)?;
    let at = payments::parse_time(&request.execute_at).ok_or_else(|| {
        wrong(
            "executeAt",
            "must be a time such as \"2026-11-16T16:00:00-07:00\"",
        )
    })?;
    let item = payments::item(&ItemId::new(&id));
    let done = app.store.reschedule(&item, at, author).await?;
    answer(&app, &id, "rescheduled", done).await
}

/// The payment as it is now, or why not.
async fn answer(
    app: &App,
    id: &str,
    verb: &str,
    done: Intervened,
) -> Result<Json<Value>, ApiError> {
    match done {
        Intervened::Yes => told(app, id).await,
        Intervened::NoSuchItem => Err(ApiError::not_found(format!("there is no payment {id}"))),
        Intervened::Refused(why) => Err(ApiError::conflict(format!(
            "payment {id} cannot be {verb}: {why}"
        ))),
    }
}

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/payments/{id}/cancel", post(cancel))
        .route("/payments/{id}/release", post(release))
        .route("/payments/{id}/reschedule", post(reschedule))
}
