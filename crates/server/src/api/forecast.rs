//! `POST /admin/rate-limit/forecast`: when an imagined feed would run, and what the real queue would
//! do under another limit, pause or calendar. Nothing is written.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::forecast::{Enough, Outlook};
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_dispatch::{Feed, Shift};

use super::App;
use super::body::{Body, parse, wrong};
use super::error::ApiError;
use super::rate_limit::ChangeRequest;

const MOST_IMAGINED: u64 = 100_000_000;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Request {
    config_name: Option<String>,
    /// So many items that do not exist yet; without it the question is about what waits.
    count: Option<u64>,
    execute_at: Option<Timestamp>,
    deadline: Option<Timestamp>,
    /// As if the lane were changed first.
    #[serde(default)]
    change: WhatIf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WhatIf {
    #[serde(flatten)]
    lane: ChangeRequest,
    /// As if the lane were paused from now until then.
    pause_until: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    now: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    feed: Option<FeedResponse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<Shift>,
    /// The lowest limit with which no deadline would be missed; null if all are met, or if no
    /// limit would do.
    enough: Option<EnoughResponse>,
    verdict: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FeedResponse {
    count: u64,
    first: Option<Timestamp>,
    finish: Option<Timestamp>,
    missed: u64,
    never: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
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
                queue: Some(shift),
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

pub(super) fn router() -> Router<App> {
    Router::new().route("/admin/rate-limit/forecast", post(forecast))
}
