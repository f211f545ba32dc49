//! `GET /admin/now`: what every lane does at this moment.

use axum::Json;
use axum::extract::State;
use rust_decimal::Decimal;
use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::ports::AtRisk;
use tollgate_operations::lane_activity::{HISTORY, LaneActivity};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::Reads;

impl Of<(&LaneActivity, Timestamp, Decimal)> for contract::LaneNow {
    fn of((activity, now, margin): (&LaneActivity, Timestamp, Decimal)) -> Self {
        let (lane, forecast) = (&activity.lane.lane, &activity.forecast);
        let planned = Decimal::from(lane.max_per_window) / Decimal::from(lane.window_size_secs);
        let second = |(at, sends): &(Timestamp, u32)| contract::Second {
            at: *at,
            sends: *sends,
        };
        Self {
            lane: contract::Lane::of((activity.lane.clone(), now, margin)),
            planned_per_second: planned.min(lane.max_per_second).round_dp(3),
            waiting: forecast.waiting,
            overdue: forecast.overdue,
            late: activity.late.count,
            untold: activity.late.untold,
            with_deadline: activity.late.with_deadline,
            drained_at: forecast.drained.as_ref().ok().copied().flatten(),
            provisional: forecast
                .drained
                .as_ref()
                .err()
                .map(contract::Provisional::of),
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
    responses((status = 200, description = "All lanes, by name.", body = contract::LanesActivity), Reads),
)]
async fn now(State(app): State<App>) -> Result<Json<contract::LanesActivity>, ApiError> {
    let sample = app.activity.now().await?;
    let (lanes, margin) = (sample.lanes.iter(), app.planner.margin());
    let told = |risks: &[AtRisk]| risks.iter().cloned().map(contract::AtRisk::of).collect();
    Ok(Json(contract::LanesActivity {
        now: sample.now,
        since: sample.now - HISTORY,
        lanes: lanes
            .map(|activity| contract::LaneNow::of((activity, sample.now, margin)))
            .collect(),
        payments_in_doubt: told(&sample.doubt.payments),
        invoices_in_doubt: told(&sample.doubt.invoices),
    }))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(now))
}
