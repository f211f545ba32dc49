//! Lanes, by the API's name: `/admin/rate-limit/…`.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use rust_decimal::Decimal;
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::id::{CalendarName, LaneName, check_item_id};
use tollgate_core::lane::{LaneChange, Pause, Spread};
use tollgate_core::lane_in_force::{LaneInForce, LaneState};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::picture;
use crate::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::{Changes, Door, Finds, Reads};
use crate::contract::words;
use crate::door::auth::Caller;
use crate::request::body::{Body, parse, perhaps_because, wrong};
use crate::request::extract::Query;

/// The numbers as the rest of the code knows them.
pub(super) fn lane_change(numbers: contract::LaneNumbers) -> Result<LaneChange, ApiError> {
    let spread = |word: String| {
        let known = Spread::ALL.into_iter().find(|it| it.as_str() == word);
        known.ok_or_else(|| wrong("spread", "must be even or jitter"))
    };
    Ok(LaneChange {
        max_per_window: numbers.max_per_window,
        window_size_secs: numbers.window_size_secs,
        max_per_second: numbers.max_per_second,
        spread: numbers.spread.map(spread).transpose()?,
        calendar: numbers.calendar.map(|name| name.map(CalendarName::new)),
        pause: None,
    })
}

impl Of<Pause> for contract::Pause {
    fn of(pause: Pause) -> Self {
        Self {
            actor: pause.actor,
            reason: pause.reason,
            from: pause.from,
            until: pause.until,
        }
    }
}

/// The lane, the present time, and the gate's margin.
impl Of<(LaneInForce, Timestamp, Decimal)> for contract::Lane {
    fn of((lane, now, margin): (LaneInForce, Timestamp, Decimal)) -> Self {
        let capacity = lane.lane.capacity(margin);
        let (open, closed_because, opens_at) = match lane.state(now) {
            LaneState::Open { .. } => (true, None, None),
            LaneState::Closed { why, until } => (false, Some(why), until),
        };
        let pause = lane.pause();
        Self {
            config_name: lane.name.to_string(),
            max_per_window: lane.lane.max_per_window,
            window_size_secs: lane.lane.window_size_secs,
            max_per_second: lane.lane.max_per_second,
            capacity_per_window: capacity,
            spread: lane.lane.spread.as_str().to_owned(),
            calendar: lane.lane.calendar.map(|name| name.to_string()),
            pause: pause.map(contract::Pause::of),
            storm: lane.storm.map(|storm| storm.id.0),
            version: lane.version,
            effective_at: lane.effective_at,
            open,
            closed_because,
            opens_at,
        }
    }
}

/// All lanes with their limits and whether they are sending.
#[utoipa::path(
    get, path = "/admin/rate-limit/config", operation_id = "listLanes", tag = "lanes",
    responses((status = 200, description = "Sorted by name.", body = [contract::Lane]), Reads),
)]
async fn list(State(app): State<App>) -> Result<Json<Vec<contract::Lane>>, ApiError> {
    let now = app.store.now().await?;
    let lanes = app.store.lanes().await?.into_iter();
    let margin = app.planner.margin();
    Ok(Json(
        lanes
            .map(|lane| contract::Lane::of((lane, now, margin)))
            .collect(),
    ))
}

/// Creates or changes a lane. The change applies to every node from `effectiveAt`.
///
/// A change that would leave waiting items without a slot is refused unless `confirm` is true.
#[utoipa::path(
    post, path = "/admin/rate-limit/config", operation_id = "changeLane", tag = "lanes",
    request_body = contract::LaneChange,
    responses((status = 200, description = "The current lane.", body = contract::Lane), Changes),
)]
async fn change(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Lane>, ApiError> {
    let request: contract::LaneChange = parse(&headers, body)?;
    check_item_id(&request.config_name).map_err(|why| wrong("configName", why))?;
    let name = LaneName::new(request.config_name);
    let change = lane_change(request.change)?;
    if !request.confirm
        && let Some(why) = app.planner.strands(&name, change.clone()).await?
    {
        return Err(ApiError::unconfirmed(why));
    }
    let author = perhaps_because(&caller, request.reason)?;
    let before = app.store.lane(&name).await?;
    let lane = app.store.change_lane(&name, change, author).await?;
    app.forecaster.forget();
    log_change(caller.name(), before.as_ref(), &lane);
    let (now, margin) = (app.store.now().await?, app.planner.margin());
    Ok(Json(contract::Lane::of((lane, now, margin))))
}

/// In the words that operators of rate limiters look for.
fn log_change(actor: &str, before: Option<&LaneInForce>, now: &LaneInForce) {
    let old = before.map_or_else(
        || "none".to_owned(),
        |before| before.lane.max_per_window.to_string(),
    );
    let (name, new) = (&now.name, now.lane.max_per_window);
    tracing::info!(
        lane = %name, version = now.version, actor,
        "Config updated: {name} maxPerWindow={old}->{new}"
    );
}

/// Does nothing: Tollgate does not cache lane configurations. Kept for compatibility.
#[utoipa::path(
    post, path = "/admin/rate-limit/cache/flush", operation_id = "flushLaneCache", tag = "lanes",
    responses((status = 204, description = "Always returned."), Door),
)]
async fn flush() -> StatusCode {
    StatusCode::NO_CONTENT
}

const DEFAULT_WINDOWS: u32 = 100;
const MOST_WINDOWS: u32 = 10_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WindowsQuery {
    /// Lane name. Default: the lane of `downstream.payments`.
    config_name: Option<String>,
    /// Default: now.
    from: Option<Timestamp>,
    /// Default: 100, maximum: 10000.
    limit: Option<u32>,
    /// `json` (the default), or `svg` for a picture.
    #[param(schema_with = words::json_or_svg)]
    format: Option<String>,
}

/// Windows of a lane that have slots, in order of time.
#[utoipa::path(
    get, path = "/admin/rate-limit/windows", operation_id = "listWindows", tag = "lanes",
    params(WindowsQuery),
    responses(
        (status = 200, description = "As JSON or an SVG image.",
            content((Vec<contract::Window> = "application/json"), (String = "image/svg+xml"))),
        Finds,
    ),
)]
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
    let windows: Vec<contract::Window> = used
        .into_iter()
        .map(|window| contract::Window {
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

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, change))
        .routes(routes!(flush))
        .routes(routes!(windows))
}
