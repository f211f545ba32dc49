//! `GET /admin/now`: what every lane does at this moment.

use axum::Json;
use axum::extract::State;
use rust_decimal::Decimal;
use serde::Serialize;
use tollgate_core::Timestamp;
use tollgate_core::ports::AtRisk;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::rate_limit::ConfigResponse;
use crate::api::App;
use crate::api::answer::error::ApiError;
use crate::api::contract::refusals::Reads;
use crate::api::in_doubt::list::RiskResponse;
use crate::api::items::foreseen::Provisional;
use crate::lane_activity::{HISTORY, LaneActivity};

/// Activity of all lanes. At most one second old.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LanesActivity)]
struct NowResponse {
    now: Timestamp,
    /// Start of the period with sends per second.
    since: Timestamp,
    lanes: Vec<LaneResponse>,
    /// By currency; updated every few seconds.
    payments_in_doubt: Vec<RiskResponse>,
    invoices_in_doubt: Vec<RiskResponse>,
}

/// Live activity of a lane.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LaneNow)]
struct LaneResponse {
    lane: ConfigResponse,
    /// Planned rate per second.
    #[schema(value_type = f64, example = 25.0)]
    planned_per_second: Decimal,
    /// Items not sent yet, including items in progress.
    waiting: u64,
    /// Waiting items whose due time has passed.
    overdue: u64,
    /// Waiting items that will miss their deadline or be held. At most two seconds old.
    late: u64,
    /// Waiting items with a deadline for which no estimate is available.
    untold: u64,
    /// Waiting items that have a deadline.
    with_deadline: u64,
    /// Estimated time at which the last waiting item is sent. Null if the queue is empty or no
    /// estimate is available.
    drained_at: Option<Timestamp>,
    /// Why no estimate is available.
    provisional: Option<Provisional>,
    /// Delay from slot to send in milliseconds, 99th percentile. A deadline must be at least this
    /// much later than the estimate.
    #[schema(example = 20)]
    slot_to_turn_ms: u64,
    /// Maximum number of sends in any sliding second of that period.
    worst_second: u32,
    /// Seconds that had sends, in order.
    seconds: Vec<SecondResponse>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Second)]
struct SecondResponse {
    at: Timestamp,
    sends: u32,
}

impl LaneResponse {
    fn new(activity: &LaneActivity, now: Timestamp, margin: Decimal) -> Self {
        let (lane, forecast) = (&activity.lane.lane, &activity.forecast);
        let planned = Decimal::from(lane.max_per_window) / Decimal::from(lane.window_size_secs);
        let second = |(at, sends): &(Timestamp, u32)| SecondResponse {
            at: *at,
            sends: *sends,
        };
        Self {
            lane: ConfigResponse::new(activity.lane.clone(), now, margin),
            planned_per_second: planned.min(lane.max_per_second).round_dp(3),
            waiting: forecast.waiting,
            overdue: forecast.overdue,
            late: activity.late.count,
            untold: activity.late.untold,
            with_deadline: activity.late.with_deadline,
            drained_at: forecast.drained.as_ref().ok().copied().flatten(),
            provisional: forecast.drained.as_ref().err().map(Provisional::from),
            slot_to_turn_ms: u64::try_from(forecast.table.way.as_millis()).unwrap_or(u64::MAX),
            worst_second: activity.worst_second,
            seconds: activity.seconds.iter().map(second).collect(),
        }
    }
}

/// Live activity of every lane: its rate per second, the number of waiting items and the time until
/// the queue is empty.
#[utoipa::path(
    get, path = "/admin/now", operation_id = "now", tag = "lanes",
    responses((status = 200, description = "All lanes, by name.", body = NowResponse), Reads),
)]
async fn now(State(app): State<App>) -> Result<Json<NowResponse>, ApiError> {
    let sample = app.activity.now().await?;
    let (lanes, margin) = (sample.lanes.iter(), app.planner.margin());
    let told = |risks: &[AtRisk]| risks.iter().cloned().map(RiskResponse::from).collect();
    Ok(Json(NowResponse {
        now: sample.now,
        since: sample.now - HISTORY,
        lanes: lanes
            .map(|activity| LaneResponse::new(activity, sample.now, margin))
            .collect(),
        payments_in_doubt: told(&sample.doubt.payments),
        invoices_in_doubt: told(&sample.doubt.invoices),
    }))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(now))
}
