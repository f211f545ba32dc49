//! `POST /admin/rate-limit/forecast`: when an imagined load would run, and what the real queue would
//! do under another limit, pause or calendar. Nothing is written.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use rust_decimal::Decimal;
use tollgate_contract as contract;
use tollgate_core::forecast::Enough;
use tollgate_core::lane::{Lane, LaneChange, Pause};
use tollgate_core::lane_in_force::{LaneInForce, no_such_lane};
use tollgate_core::{SignedDuration, Timestamp};
use tollgate_dispatch::{ImaginedLoad, LaneForecast};
use tollgate_domains::payments;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::rate_limit::lane_change;
use crate::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::Takes;
use crate::request::body::{Body, parse, wrong};

/// More than any day brings; a larger question would only keep its caller waiting.
const MOST_IMAGINED: u64 = 10_000_000;

impl Of<Enough> for contract::Enough {
    fn of(enough: Enough) -> Self {
        Self {
            max_per_second: enough.max_per_second,
            max_per_window: enough.max_per_window,
        }
    }
}

/// Forecasts when a number of hypothetical items would run; without `count`, how the real queue
/// would respond to a change.
#[utoipa::path(
    post, path = "/admin/rate-limit/forecast", operation_id = "forecast", tag = "lanes",
    request_body = contract::ForecastRequest,
    responses((status = 200, description = "The forecast. Nothing is stored.", body = contract::Forecast), Takes),
)]
async fn forecast(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Forecast>, ApiError> {
    let request: contract::ForecastRequest = parse(&headers, body)?;
    let now = app.store.now().await?;
    let name = app.lane_named(request.config_name).await?.name;
    let change = LaneChange {
        pause: request.change.pause_until.map(|until| {
            let until = Some(until);
            Some(Pause {
                until,
                ..Pause::now("forecast", "what if")
            })
        }),
        ..lane_change(request.change.lane)?
    };
    let lane = app.planner.lane(&name, change).await?;
    let imagined = app.forecaster.imagined(&lane).await?;
    let imagined = imagined.ok_or_else(|| ApiError::not_found(no_such_lane(&name)))?;
    let response = match request.count {
        Some(count) if !(1..=MOST_IMAGINED).contains(&count) => {
            let what = format!("must be between 1 and {MOST_IMAGINED}");
            return Err(wrong("count", what));
        }
        Some(count) => {
            let load = ImaginedLoad {
                count,
                at: request.execute_at,
                deadline: request.deadline,
            };
            of_load(&app, &imagined, load, now).await?
        }
        None => of_queue(&app, &imagined, now).await?,
    };
    Ok(Json(response))
}

/// What items that do not exist yet would do.
async fn of_load(
    app: &App,
    imagined: &LaneForecast,
    load: ImaginedLoad,
    now: Timestamp,
) -> Result<contract::Forecast, ApiError> {
    let lane = &imagined.lane;
    let (forecast, _) = app.planner.forecast(lane, load).await?;
    // Slots are where the plan has room; the gate may be behind, closed, or not open again at all.
    let last = forecast.last.unwrap_or(now);
    let foreseen = imagined.ready(&payments::item_type(), last, None);
    let (finish, provisional) = match foreseen.sent {
        Ok(sent) => (Some(sent), None),
        Err(untold) => (None, Some(contract::Provisional::of(&untold))),
    };
    let behind = finish.map_or(SignedDuration::ZERO, |sent| sent.duration_since(last));
    let deadline = load
        .deadline
        .map(|deadline| deadline - behind - imagined.table.way);
    let (forecast, enough) = app
        .planner
        .forecast(lane, ImaginedLoad { deadline, ..load })
        .await?;
    let told = Answer {
        count: forecast.count,
        with_deadline: load.deadline.map_or(0, |_| forecast.count),
        missed: forecast.missed,
        finish: forecast.last.map(|slot| finish.unwrap_or(slot)),
        never: forecast.never,
        enough,
    };
    Ok(contract::Forecast {
        now,
        verdict: told.verdict(lane, app.planner.margin(), provisional.as_ref()),
        feed: Some(contract::ForecastFeed {
            count: forecast.count,
            first: forecast.first.filter(|_| provisional.is_none()),
            finish: told.finish.filter(|_| provisional.is_none()),
            missed: forecast.missed,
            never: forecast.never,
        }),
        queue: None,
        binds: told.binds(lane, app.planner.margin()).map(str::to_owned),
        enough: enough.map(contract::Enough::of),
        provisional,
    })
}

/// What everything that waits would do.
pub(super) async fn of_queue(
    app: &App,
    imagined: &LaneForecast,
    now: Timestamp,
) -> Result<contract::Forecast, ApiError> {
    let (lane, way) = (&imagined.lane, imagined.table.way);
    let effect = app.planner.preview(lane, way).await?;
    let provisional = imagined
        .drained
        .as_ref()
        .err()
        .map(contract::Provisional::of);
    let enough = match effect.missed_after {
        0 => None,
        _ => app.planner.enough(lane, way).await?,
    };
    let told = Answer {
        count: effect.waiting,
        with_deadline: effect.with_deadline,
        missed: effect.missed_after,
        finish: effect.finish_after,
        never: effect.never,
        enough,
    };
    Ok(contract::Forecast {
        now,
        verdict: told.verdict(lane, app.planner.margin(), provisional.as_ref()),
        feed: None,
        binds: told.binds(lane, app.planner.margin()).map(str::to_owned),
        queue: Some(contract::Shift::of(effect)),
        enough: enough.map(contract::Enough::of),
        provisional,
    })
}

/// What there is to say about items.
struct Answer {
    count: u64,
    with_deadline: u64,
    missed: u64,
    finish: Option<Timestamp>,
    never: u64,
    enough: Option<Enough>,
}

impl Answer {
    /// What keeps items from running earlier: the plan, or the hard limit.
    fn binds(&self, lane: &LaneInForce, margin: Decimal) -> Option<&'static str> {
        let lane = &lane.lane;
        let turns = lane.pace(margin).turns_in(lane.window_size());
        let binds = if turns > lane.max_per_window {
            PLAN
        } else {
            HARD_LIMIT
        };
        (self.missed > 0).then_some(binds)
    }

    fn verdict(
        &self,
        lane: &LaneInForce,
        margin: Decimal,
        provisional: Option<&contract::Provisional>,
    ) -> String {
        let (count, missed) = (self.count, self.missed);
        if count == 0 && self.never == 0 {
            return "nothing is waiting".to_owned();
        }
        if let Some(provisional) = provisional {
            return format!("no estimate is available: {}", provisional.reason);
        }
        let finish = match self.finish {
            Some(finish) => format!("the last is sent at {finish}"),
            None => "none of them is ever sent".to_owned(),
        };
        if self.with_deadline == 0 {
            return format!("{finish}; none of the {count} has a deadline");
        }
        if missed == 0 {
            let with = self.with_deadline;
            return format!("all {with} with a deadline meet it; {finish}");
        }
        let met = self.with_deadline.saturating_sub(missed);
        let Lane {
            max_per_window: plan,
            window_size_secs: secs,
            max_per_second: limit,
            ..
        } = &lane.lane;
        let binds = match self.binds(lane, margin) {
            Some(PLAN) => format!("the limiting factor is the plan of {plan} per {secs} s"),
            _ => format!("the limiting factor is the hard limit of {limit} a second"),
        };
        let enough = match self.enough {
            Some(enough) => format!(
                "{} a second with a plan of {} per {secs} s would suffice",
                enough.max_per_second, enough.max_per_window
            ),
            None => "no limit would suffice".to_owned(),
        };
        format!("{met} meet their deadline, {missed} do not; {finish}; {binds}; {enough}")
    }
}

const PLAN: &str = "plan";
const HARD_LIMIT: &str = "hardLimit";

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(forecast))
}
