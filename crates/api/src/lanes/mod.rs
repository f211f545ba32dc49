//! Lanes: pause, resume, replan, reconcile and history are here; beside them limit and plan (`rate_limit.rs`), `adjust`,
//! forecasts, refusal storms, the certificate, and what lanes do right now.

mod adjust;
mod certificate;
mod forecast;
mod now;
mod picture;
mod rate_limit;
mod replan_effect;
mod storms;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use tollgate_contract as contract;
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_core::ports::{Author, SettingKind};
use tollgate_dispatch::LEAST_WAY;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::{Changes, Finds};
use crate::door::auth::Caller;
use crate::request::body::{Body, author, parse, wrong};
use crate::request::extract::Path;

/// Pauses a lane, now or at a given time, until a given time or until it is resumed.
#[utoipa::path(
    post, path = "/admin/lanes/{lane}/pause", operation_id = "pauseLane", tag = "lanes",
    params(("lane" = String, Path, description = "The lane's name.", example = "default")),
    request_body = contract::PauseRequest,
    responses((status = 200, description = "The current lane.", body = contract::Lane), Changes),
)]
async fn pause(
    State(app): State<App>,
    caller: Caller,
    Path(lane): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Lane>, ApiError> {
    let request: contract::PauseRequest = parse(&headers, body)?;
    let author = author(&caller, request.reason)?;
    let now = app.store.now().await?;
    if request.until.is_some_and(|until| until <= now) {
        return Err(wrong("until", "must be in the future"));
    }
    let pause = Pause {
        from: request.from,
        until: request.until,
        ..Pause::now(author.actor.clone(), author.reason.clone())
    };
    change(&app, lane, Some(pause), author).await
}

/// Resumes a paused lane, now or at a given time.
#[utoipa::path(
    post, path = "/admin/lanes/{lane}/resume", operation_id = "resumeLane", tag = "lanes",
    params(("lane" = String, Path, description = "The lane's name.", example = "default")),
    request_body = contract::ResumeRequest,
    responses((status = 200, description = "The current lane.", body = contract::Lane), Changes),
)]
async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(lane): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Lane>, ApiError> {
    let request: contract::ResumeRequest = parse(&headers, body)?;
    let author = author(&caller, request.reason)?;
    let now = app.store.now().await?;
    let lane_now = app.lane_named(Some(lane.clone())).await?;
    if request.at.is_some() && lane_now.storm.is_some() {
        let why =
            "a refusal storm has paused the lane; fix the cause, then resume it without a time";
        return Err(ApiError::conflict(why));
    }
    let pause = match (request.at, lane_now.lane.pause) {
        (None, _) => None,
        (Some(at), Some(pause)) if pause.until.is_none_or(|until| until > now) => Some(Pause {
            until: Some(at),
            ..pause
        }),
        (Some(_), _) => return Err(ApiError::conflict("the lane is not paused")),
    };
    change(&app, lane, pause, author).await
}

async fn change(
    app: &App,
    lane: String,
    pause: Option<Pause>,
    author: Author,
) -> Result<Json<contract::Lane>, ApiError> {
    let name = app.lane_named(Some(lane)).await?.name;
    let act = match pause {
        Some(_) => "lane paused",
        None => "lane resumed",
    };
    let change = LaneChange {
        pause: Some(pause),
        ..LaneChange::default()
    };
    let actor = author.actor.clone();
    let lane = app.store.change_lane(&name, change, author).await?;
    app.forecaster.forget();
    app.acted(&actor, act, name.as_str());
    Ok(Json(contract::Lane::of((
        lane,
        app.store.now().await?,
        app.planner.margin(),
    ))))
}

/// Assigns new slots to all waiting items of a lane, or previews the effect.
#[utoipa::path(
    post, path = "/admin/lanes/{lane}/replan", operation_id = "replanLane", tag = "lanes",
    params(("lane" = String, Path, description = "The lane's name.", example = "default")),
    request_body = contract::ReplanRequest,
    responses((status = 200, description = "The items that moved, or would move.", body = contract::Replan), Changes),
)]
async fn replan(
    State(app): State<App>,
    caller: Caller,
    Path(lane): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Replan>, ApiError> {
    let request: contract::ReplanRequest = parse(&headers, body)?;
    let lane = app.lane_named(Some(lane)).await?;
    let foreseen = app.forecaster.lane_as_in(&lane).await?;
    let way = foreseen.map_or(LEAST_WAY, |foreseen| foreseen.table.way);
    let effect = if request.preview {
        app.planner.preview(&lane, way).await?
    } else {
        let author = author(&caller, request.reason)?;
        let effect = app.planner.replan(&lane.name, way, author).await?;
        app.acted(caller.name(), "lane replanned", lane.name.as_str());
        app.forecaster.forget();
        effect
    };
    Ok(Json(contract::Replan {
        lane: lane.name.to_string(),
        preview: request.preview,
        shift: contract::Shift::of(effect),
    }))
}

/// Recounts a lane's windows from the slots in them.
#[utoipa::path(
    post, path = "/admin/lanes/{lane}/reconcile", operation_id = "reconcileLane", tag = "lanes",
    params(("lane" = String, Path, description = "The lane's name.", example = "default")),
    responses((status = 200, description = "The corrected windows.", body = contract::Recount), Finds),
)]
async fn reconcile(
    State(app): State<App>,
    Path(lane): Path<String>,
) -> Result<Json<contract::Recount>, ApiError> {
    let lane = app.lane_named(Some(lane)).await?.name;
    let recounted = app.planner.reconcile(&lane).await?;
    Ok(Json(contract::Recount {
        lane: lane.to_string(),
        windows_corrected: recounted.windows,
        room_returned: recounted.returned,
        slots_not_counted: recounted.missing,
    }))
}

const MOST_VERSIONS: u32 = 1000;

/// Every version of a setting, newest first.
pub(super) async fn versions(
    app: &App,
    kind: SettingKind,
    name: &str,
) -> Result<Json<Vec<contract::Version>>, ApiError> {
    let history = app.store.setting_history(kind, name, MOST_VERSIONS).await?;
    let version = |setting: tollgate_core::ports::Setting| contract::Version {
        version: setting.version,
        since: setting.created_at,
        actor: setting.author.actor,
        reason: setting.author.reason,
        body: serde_json::from_str(&setting.body_json).unwrap_or_default(),
    };
    Ok(Json(history.into_iter().map(version).collect()))
}

/// Every version of a lane, newest first.
#[utoipa::path(
    get, path = "/admin/lanes/{lane}/history", operation_id = "listLaneVersions", tag = "lanes",
    params(("lane" = String, Path, description = "The lane's name.", example = "default")),
    responses((status = 200, description = "Each with actor and reason.", body = [contract::Version]), Finds),
)]
async fn history(
    State(app): State<App>,
    Path(lane): Path<String>,
) -> Result<Json<Vec<contract::Version>>, ApiError> {
    let lane = app.lane_named(Some(lane)).await?.name;
    versions(&app, SettingKind::Lane, lane.as_str()).await
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(replan))
        .routes(routes!(reconcile))
        .routes(routes!(history))
        .merge(rate_limit::router())
        .merge(forecast::router())
        .merge(adjust::router())
        .merge(storms::router())
        .merge(now::router())
        .merge(certificate::router())
}
