//! `POST /admin/rate-limit/forecast`: when an imagined feed would run, and what the real queue would
//! do under another limit, pause or calendar. Nothing is written.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::forecast::{Enough, Outlook};
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_dispatch::{Feed, Shift};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::body::{Body, parse, wrong};
use super::error::ApiError;
use super::rate_limit::ChangeRequest;
use super::refusals::Takes;
use super::shift::ShiftResponse;

/// More than any day brings; a larger question would only keep its caller waiting.
const MOST_IMAGINED: u64 = 10_000_000;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ForecastRequest, example = json!({
    "count": 500_000, "executeAt": "2026-11-16T16:00:00Z", "deadline": "2026-11-16T17:00:00Z"
}))]
struct Request {
    /// The lane; the payments' bank's if not given.
    config_name: Option<String>,
    /// How many items that do not exist yet; without it the question is about what waits.
    #[schema(minimum = 1, maximum = 10_000_000)]
    count: Option<u64>,
    /// When they fall due; now if not given.
    execute_at: Option<Timestamp>,
    deadline: Option<Timestamp>,
    /// As if the lane were changed first.
    #[serde(default)]
    change: WhatIf,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WhatIf {
    #[serde(flatten)]
    lane: ChangeRequest,
    /// As if the lane were paused from now until then.
    pause_until: Option<Timestamp>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Forecast)]
struct Response {
    now: Timestamp,
    /// What the imagined items would do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    feed: Option<FeedResponse>,
    /// What the real queue would do.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    queue: Option<ShiftResponse>,
    /// The lowest limit with which no deadline would be missed; null if all are met, or if no
    /// limit would do.
    enough: Option<EnoughResponse>,
    /// The same in one sentence.
    verdict: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Feed)]
struct FeedResponse {
    count: u64,
    first: Option<Timestamp>,
    finish: Option<Timestamp>,
    /// How many would miss the deadline.
    missed: u64,
    /// For how many the lane never opens.
    never: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Enough)]
struct EnoughResponse {
    max_per_second: u32,
    max_per_window: u32,
}

impl From<Enough> for EnoughResponse {
    fn from(enough: Enough) -> Self {
        Self {
            max_per_second: enough.max_per_second,
            max_per_window: enough.max_per_window,
        }
    }
}

/// When an imagined feed would run; without `count`: what the real queue would do under a change.
#[utoipa::path(
    post, path = "/admin/rate-limit/forecast", operation_id = "forecast", tag = "lanes",
    request_body = Request,
    responses((status = 200, description = "Nothing was written.", body = Response), Takes),
)]
async fn forecast(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Response>, ApiError> {
    let request: Request = parse(&headers, body)?;
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
        ..request.change.lane.into()
    };
    let lane = app.planner.lane(&name, change).await?;
    let response = match request.count {
        Some(count) if !(1..=MOST_IMAGINED).contains(&count) => {
            let what = format!("must be between 1 and {MOST_IMAGINED}");
            return Err(wrong("count", what));
        }
        Some(count) => {
            let feed = Feed {
                count,
                at: request.execute_at,
                deadline: request.deadline,
            };
            let (outlook, enough) = app.planner.forecast(&lane, feed).await?;
            Response {
                now,
                verdict: feed_verdict(&outlook, enough),
                feed: Some(FeedResponse {
                    count: outlook.count,
                    first: outlook.first,
                    finish: outlook.last,
                    missed: outlook.missed,
                    never: outlook.never,
                }),
                queue: None,
                enough: enough.map(EnoughResponse::from),
            }
        }
        None => {
            let shift = app.planner.preview(&lane).await?;
            let enough = match shift.missed_after {
                0 => None,
                _ => app.planner.enough(&lane).await?,
            };
            Response {
                now,
                verdict: queue_verdict(&shift, enough),
                feed: None,
                queue: Some(shift.into()),
                enough: enough.map(EnoughResponse::from),
            }
        }
    };
    Ok(Json(response))
}

fn feed_verdict(outlook: &Outlook, enough: Option<Enough>) -> String {
    let finish = outlook.last.map_or("never".to_owned(), |t| t.to_string());
    sentence(outlook.count, outlook.missed, &finish, enough)
}

fn queue_verdict(shift: &Shift, enough: Option<Enough>) -> String {
    let finish = shift
        .finish_after
        .map_or("at once".to_owned(), |t| t.to_string());
    sentence(shift.waiting, shift.missed_after, &finish, enough)
}

fn sentence(count: u64, missed: u64, finish: &str, enough: Option<Enough>) -> String {
    if count == 0 {
        return "nothing waits".to_owned();
    }
    let met = count.saturating_sub(missed);
    match (missed, enough) {
        (0, _) => format!("all {count} are in time; the last runs at {finish}"),
        (_, Some(enough)) => format!(
            "{met} are in time, {missed} are not; the last runs at {finish}; {} a second would be enough",
            enough.max_per_second
        ),
        (_, None) => format!(
            "{met} are in time, {missed} are not; the last runs at {finish}; no limit would be enough"
        ),
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(forecast))
}
