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

use super::App;
use super::error::ApiError;
use super::foreseen::Provisional;
use super::in_doubt_list::RiskResponse;
use super::rate_limit::ConfigResponse;
use super::refusals::Reads;
use crate::pulse::{HISTORY, LanePulse};

/// All lanes at one moment, not older than a second.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Now)]
struct NowResponse {
    now: Timestamp,
    /// From here on sends are told second by second.
    since: Timestamp,
    lanes: Vec<LaneResponse>,
    /// By currency; counted every few seconds.
    payments_in_doubt: Vec<RiskResponse>,
    invoices_in_doubt: Vec<RiskResponse>,
}

/// A lane, and what it does.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LaneNow)]
struct LaneResponse {
    lane: ConfigResponse,
    /// What the plan gives a second.
    #[schema(value_type = f64, example = 25.0)]
    planned_per_second: Decimal,
    /// Not sent yet, whatever is under way included.
    waiting: u64,
    /// Of these, what was due before now.
    overdue: u64,
    /// Of what waits, what will be sent after its deadline as things stand, or be held; not older than two seconds.
    late: u64,
    /// Of what waits, what has a deadline while no time can be told.
    untold: u64,
    /// Of what waits, what has a deadline.
    with_deadline: u64,
    /// When the last of what waits is sent, as things stand; null if nothing waits, and if no time can be told.
    drained_at: Option<Timestamp>,
    /// Why no time can be told.
    provisional: Option<Provisional>,
    /// How long the way from a slot to the send takes, in milliseconds: longer for one in a hundred. A deadline
    /// must be later than the estimate by this much.
    #[schema(example = 20)]
    slot_to_turn_ms: u64,
    /// The most sends in any sliding second since then.
    worst_second: u32,
    /// Seconds with sends, in order.
    seconds: Vec<SecondResponse>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Second)]
struct SecondResponse {
    at: Timestamp,
    sends: u32,
}

impl LaneResponse {
    fn new(pulse: &LanePulse, now: Timestamp, margin: Decimal) -> Self {
        let (lane, forecast) = (&pulse.lane.lane, &pulse.forecast);
        let planned = Decimal::from(lane.max_per_window) / Decimal::from(lane.window_size_secs);
        let second = |(at, sends): &(Timestamp, u32)| SecondResponse {
            at: *at,
            sends: *sends,
        };
        Self {
            lane: ConfigResponse::new(pulse.lane.clone(), now, margin),
            planned_per_second: planned.min(lane.max_per_second).round_dp(3),
            waiting: forecast.waiting,
            overdue: forecast.overdue,
            late: pulse.late.count,
            untold: pulse.late.untold,
            with_deadline: pulse.late.with_deadline,
            drained_at: forecast.drained.as_ref().ok().copied().flatten(),
            provisional: forecast.drained.as_ref().err().map(Provisional::from),
            slot_to_turn_ms: u64::try_from(forecast.table.way.as_millis()).unwrap_or(u64::MAX),
            worst_second: pulse.worst_second,
            seconds: pulse.seconds.iter().map(second).collect(),
        }
    }
}

/// What every lane does at this moment: its rate second by second, what waits and for how long.
#[utoipa::path(
    get, path = "/admin/now", operation_id = "now", tag = "lanes",
    responses((status = 200, description = "All lanes, by name.", body = NowResponse), Reads),
)]
async fn now(State(app): State<App>) -> Result<Json<NowResponse>, ApiError> {
    let beat = app.pulse.now().await?;
    let (lanes, margin) = (beat.lanes.iter(), app.planner.margin());
    let told = |risks: &[AtRisk]| risks.iter().cloned().map(RiskResponse::from).collect();
    Ok(Json(NowResponse {
        now: beat.now,
        since: beat.now - HISTORY,
        lanes: lanes
            .map(|pulse| LaneResponse::new(pulse, beat.now, margin))
            .collect(),
        payments_in_doubt: told(&beat.doubt.payments),
        invoices_in_doubt: told(&beat.doubt.invoices),
    }))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(now))
}
