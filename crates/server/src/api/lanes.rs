//! What operators do with a lane: pause, resume, replan, reconcile; and its history.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_core::Timestamp;
use tollgate_core::id::LaneName;
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_core::ports::{Author, SettingKind};
use tollgate_dispatch::Shift;

use super::App;
use super::body::{Body, author, parse, wrong};
use super::error::ApiError;
use super::rate_limit::ConfigResponse;
use crate::auth::Caller;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PauseRequest {
    reason: String,
    /// At once, if not given.
    from: Option<Timestamp>,
    /// Until someone resumes, if not given.
    until: Option<Timestamp>,
}

async fn pause(
    State(app): State<App>,
    caller: Caller,
    Path(lane): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ConfigResponse>, ApiError> {
    let request: PauseRequest = parse(&headers, body)?;
    let author = author(&caller, request.reason)?;
    let now = app.store.now().await?;
    if request.until.is_some_and(|until| until <= now) {
        return Err(wrong("until", "must lie ahead"));
    }
    let pause = Pause {
        from: request.from,
        until: request.until,
        ..Pause::now(author.actor.clone(), author.reason.clone())
    };
    change(&app, lane, Some(pause), author).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeRequest {
    reason: String,
    /// At once, if not given.
    at: Option<Timestamp>,
}

async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(lane): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ConfigResponse>, ApiError> {
    let request: ResumeRequest = parse(&headers, body)?;
    let author = author(&caller, request.reason)?;
    let now = app.store.now().await?;
    let lane_now = app.lane_named(Some(lane.clone())).await?;
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
) -> Result<Json<ConfigResponse>, ApiError> {
    let name = app.lane_named(Some(lane)).await?.name;
    let change = LaneChange {
        pause: Some(pause),
        ..LaneChange::default()
    };
    let lane = app.store.change_lane(&name, change, author).await?;
    Ok(Json(ConfigResponse::new(lane, app.store.now().await?)))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReplanRequest {
    #[serde(default)]
    reason: String,
    /// Only say what would happen.
    #[serde(default)]
    preview: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplanResponse {
    lane: LaneName,
    preview: bool,
    #[serde(flatten)]
    shift: Shift,
}

async fn replan(
    State(app): State<App>,
    caller: Caller,
    Path(lane): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ReplanResponse>, ApiError> {
    let request: ReplanRequest = parse(&headers, body)?;
    let lane = app.lane_named(Some(lane)).await?;
    let shift = if request.preview {
        app.planner.preview(&lane).await?
    } else {
        let author = author(&caller, request.reason)?;
        app.planner.replan(&lane.name, author).await?
    };
    Ok(Json(ReplanResponse {
        lane: lane.name,
        preview: request.preview,
        shift,
    }))
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReconcileResponse {
    lane: LaneName,
    windows_corrected: u64,
    room_returned: u64,
    slots_not_counted: u64,
}

async fn reconcile(
    State(app): State<App>,
    Path(lane): Path<String>,
) -> Result<Json<ReconcileResponse>, ApiError> {
    let lane = app.lane_named(Some(lane)).await?.name;
    let recounted = app.planner.reconcile(&lane).await?;
    Ok(Json(ReconcileResponse {
        lane,
        windows_corrected: recounted.windows,
        room_returned: recounted.returned,
        slots_not_counted: recounted.missing,
    }))
}

const MOST_VERSIONS: u32 = 1000;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VersionResponse {
    version: i64,
    since: Timestamp,
    actor: String,
    reason: String,
    body: Value,
}

/// Every version of a setting, newest first.
pub(super) async fn versions(
    app: &App,
    kind: SettingKind,
    name: &str,
) -> Result<Json<Vec<VersionResponse>>, ApiError> {
    let history = app.store.setting_history(kind, name, MOST_VERSIONS).await?;
    let version = |setting: tollgate_core::ports::Setting| VersionResponse {
        version: setting.version,
        since: setting.created_at,
        actor: setting.author.actor,
        reason: setting.author.reason,
        body: serde_json::from_str(&setting.body_json).unwrap_or_default(),
    };
    Ok(Json(history.into_iter().map(version).collect()))
}

async fn history(
    State(app): State<App>,
    Path(lane): Path<String>,
) -> Result<Json<Vec<VersionResponse>>, ApiError> {
    let lane = app.lane_named(Some(lane)).await?.name;
    versions(&app, SettingKind::Lane, lane.as_str()).await
}

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/admin/lanes/{lane}/pause", post(pause))
        .route("/admin/lanes/{lane}/resume", post(resume))
        .route("/admin/lanes/{lane}/replan", post(replan))
        .route("/admin/lanes/{lane}/reconcile", post(reconcile))
        .route("/admin/lanes/{lane}/history", get(history))
}
