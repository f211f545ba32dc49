//! `/admin/events`: moves of items that are published, what waits, and turning it off.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use tollgate_contract as contract;
use tollgate_core::ports::{OutboxView, TurnedOff};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::{Changes, Reads};
use crate::door::auth::Caller;
use crate::payments::changes::Because;
use crate::request::body::{Body, author, parse};

impl Of<OutboxView> for contract::Events {
    fn of(view: OutboxView) -> Self {
        Self {
            on: view.is_on,
            backlog: view.backlog,
            backlog_is_capped: view.is_capped,
            oldest_at: view.oldest,
            owner: view.owner,
            published: view.published,
            last_published_at: view.last_published_at,
            trouble_at: view.trouble.as_ref().map(|trouble| trouble.at),
            trouble: view.trouble.map(|trouble| trouble.what),
            difference: view.difference,
        }
    }
}

/// State of event publishing.
#[utoipa::path(
    get, path = "/admin/events", operation_id = "getEvents", tag = "feeds",
    responses((status = 200, description = "State of event publishing.", body = contract::Events), Reads),
)]
async fn show(State(app): State<App>) -> Result<Json<contract::Events>, ApiError> {
    Ok(Json(contract::Events::of(app.store.outbox().await?)))
}

/// Turns events off: moves no longer write events, and unpublished events are dropped.
///
/// Refused while a process publishes events: remove `[events]` from the configuration of every process first.
#[utoipa::path(
    post, path = "/admin/events/off", operation_id = "turnEventsOff", tag = "feeds",
    request_body = Because,
    responses((status = 200, description = "Events are off.", body = contract::EventsOff), Changes),
)]
async fn off(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::EventsOff>, ApiError> {
    let author = author(&caller, parse::<Because>(&headers, body)?.reason)?;
    match app.store.turn_events_off(author.clone()).await? {
        TurnedOff::Yes { dropped } => {
            app.acted(&author.actor, "turned off", "events");
            Ok(Json(contract::EventsOff { dropped }))
        }
        TurnedOff::WereOff => Err(ApiError::conflict("events are off".to_owned())),
        TurnedOff::InUse(owner) => Err(ApiError::conflict(format!(
            "process {owner} publishes events; remove [events] from its configuration, restart it, and try again"
        ))),
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(show))
        .routes(routes!(off))
}
