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
    /// Not sent yet; counted every few seconds.
    waiting: u64,
    /// Of these, what was due before now.
    overdue: u64,
    /// Of what waits, what the plan gives a slot after its deadline; counted no further than 1000.
    planned_late: u64,
    /// When what waits now has been sent, as things stand; null if nobody can say.
    drained_at: Option<Timestamp>,
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
    fn new(pulse: &LanePulse, now: Timestamp) -> Self {
        let lane = &pulse.lane.lane;
        let planned = Decimal::from(lane.max_per_window) / Decimal::from(lane.window_size_secs);
        let second = |(at, sends): &(Timestamp, u32)| SecondResponse {
            at: *at,
            sends: *sends,
        };
        Self {
            lane: ConfigResponse::new(pulse.lane.clone(), now),
            planned_per_second: planned.min(lane.max_per_second).round_dp(3),
            waiting: pulse.waiting,
            overdue: pulse.overdue,
            planned_late: pulse.planned_late,
            drained_at: pulse.drained_at,
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
    let lanes = beat.lanes.iter();
    let told = |risks: &[AtRisk]| risks.iter().cloned().map(RiskResponse::from).collect();
    Ok(Json(NowResponse {
        now: beat.now,
        since: beat.now - HISTORY,
        lanes: lanes
            .map(|pulse| LaneResponse::new(pulse, beat.now))
            .collect(),
        payments_in_doubt: told(&beat.doubt.payments),
        invoices_in_doubt: told(&beat.doubt.invoices),
    }))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(now))
}
