//! Lanes, by the API's name: `/admin/rate-limit/…`.

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::id::{CalendarName, LaneName, check_item_id};
use tollgate_core::lane::{LaneChange, Pause, Spread};
use tollgate_core::lane_in_force::{LaneInForce, Standing};
use tollgate_core::ports::Author;

use super::App;
use super::body::{Body, given, parse, wrong};
use super::error::ApiError;
use super::picture;
use crate::auth::Caller;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigRequest {
    config_name: String,
    #[serde(flatten)]
    change: ChangeRequest,
    reason: Option<String>,
    /// Needed for a change that would strand what waits.
    #[serde(default)]
    confirm: bool,
}

/// What is left out keeps its value.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::option_option,
    reason = "left out, null and given are three things"
)]
pub(super) struct ChangeRequest {
    max_per_window: Option<u32>,
    window_size_secs: Option<u32>,
    max_per_second: Option<Decimal>,
    spread: Option<Spread>,
    /// `null` takes the calendar off.
    #[serde(default, deserialize_with = "given")]
    calendar: Option<Option<CalendarName>>,
}

impl From<ChangeRequest> for LaneChange {
    fn from(request: ChangeRequest) -> Self {
        Self {
            max_per_window: request.max_per_window,
            window_size_secs: request.window_size_secs,
            max_per_second: request.max_per_second,
            spread: request.spread,
            calendar: request.calendar,
            pause: None,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigResponse {
    config_name: LaneName,
    max_per_window: u32,
    window_size_secs: u32,
    max_per_second: Decimal,
    spread: Spread,
    calendar: Option<CalendarName>,
    pause: Option<Pause>,
    version: i64,
    effective_at: Timestamp,
    /// Whether it sends now, and if not, why and until when.
    open: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    closed_because: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    opens_at: Option<Timestamp>,
}

impl ConfigResponse {
    pub(super) fn new(lane: LaneInForce, now: Timestamp) -> Self {
        let (open, closed_because, opens_at) = match lane.standing(now) {
            Standing::Open { .. } => (true, None, None),
            Standing::Closed { why, until } => (false, Some(why), until),
        };
        Self {
            config_name: lane.name,
            max_per_window: lane.lane.max_per_window,
            window_size_secs: lane.lane.window_size_secs,
            max_per_second: lane.lane.max_per_second,
            spread: lane.lane.spread,
            calendar: lane.lane.calendar,
            pause: lane.lane.pause,
            version: lane.version,
            effective_at: lane.effective_at,
            open,
            closed_because,
            opens_at,
        }
    }
}

async fn list(State(app): State<App>) -> Result<Json<Vec<ConfigResponse>>, ApiError> {
    let now = app.store.now().await?;
    let lanes = app.store.lanes().await?.into_iter();
    Ok(Json(
        lanes.map(|lane| ConfigResponse::new(lane, now)).collect(),
    ))
}

async fn change(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ConfigResponse>, ApiError> {
    let request: ConfigRequest = parse(&headers, body)?;
    check_item_id(&request.config_name).map_err(|why| wrong("configName", why))?;
    let name = LaneName::new(request.config_name);
    let change = LaneChange::from(request.change);
    if !request.confirm
        && let Some(why) = app.planner.strands(&name, change.clone()).await?
    {
        return Err(ApiError::conflict(why));
    }
    let author = Author::new(caller.name(), request.reason.unwrap_or_default());
    let lane = app.store.change_lane(&name, change, author).await?;
    Ok(Json(ConfigResponse::new(lane, app.store.now().await?)))
}

/// Nothing is cached, so there is nothing to flush.
async fn flush() -> StatusCode {
    StatusCode::NO_CONTENT
}

const DEFAULT_WINDOWS: u32 = 100;
const MOST_WINDOWS: u32 = 10_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WindowsQuery {
    config_name: Option<String>,
    from: Option<Timestamp>,
    limit: Option<u32>,
    format: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WindowResponse {
    pub(super) window_start: Timestamp,
    pub(super) slot_count: u32,
    /// What the window can take in all.
    pub(super) capacity: u32,
}

async fn windows(
    State(app): State<App>,
    Query(query): Query<WindowsQuery>,
) -> Result<Response, ApiError> {
    let lane = app.lane_named(query.config_name).await?;
    let now = app.store.now().await?;
    let plan = lane.windows(app.planner.margin());
    let from = plan.start_of(query.from.unwrap_or(now));
    let limit = query.limit.unwrap_or(DEFAULT_WINDOWS).min(MOST_WINDOWS);
    let used = app.store.windows(&lane.name, from, limit).await?;
    let windows: Vec<WindowResponse> = used
        .into_iter()
        .map(|window| WindowResponse {
            window_start: window.start,
            slot_count: window.used,
            capacity: plan.capacity(window.start, window.start),
        })
        .collect();
    match query.format.as_deref() {
        None | Some("json") => Ok(Json(windows).into_response()),
        Some("svg") => Ok(picture::svg(picture::occupancy(&lane.name, &windows))),
        Some(_) => Err(wrong("format", "must be \"json\" or \"svg\"")),
    }
}

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/admin/rate-limit/config", get(list).post(change))
        .route("/admin/rate-limit/cache/flush", post(flush))
        .route("/admin/rate-limit/windows", get(windows))
}
