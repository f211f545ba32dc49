//! `POST /admin/lanes/{lane}/adjust`: limit, plan and calendar of a lane and the slots of what waits, in one act that
//! is previewed first. Without numbers it proposes those that would meet every deadline.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use sha2::{Digest, Sha256};
use tollgate_contract as contract;
use tollgate_core::lane::{Lane, LaneChange};
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::{SignedDuration, Timestamp};
use tollgate_dispatch::LEAST_WAY;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::forecast;
use super::rate_limit::lane_change;
use crate::answer::codes::Code;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::Changes;
use crate::door::auth::Caller;
use crate::request::body::{Body, author, parse, wrong};
use crate::request::extract::Path;
use crate::{App, no_lane};

/// A preview can be confirmed for this long.
const PREVIEW_LASTS: SignedDuration = SignedDuration::from_mins(15);
/// A preview is stale if more deadlines would be missed than it showed, by more than one in a hundred.
const WORSE_PERCENT: u64 = 1;

impl Of<&Lane> for contract::LaneSettings {
    fn of(lane: &Lane) -> Self {
        Self {
            max_per_second: lane.max_per_second.normalize(),
            max_per_window: lane.max_per_window,
            window_size_secs: lane.window_size_secs,
            spread: lane.spread.as_str().to_owned(),
            calendar: lane.calendar.as_ref().map(ToString::to_string),
        }
    }
}

/// Changes the limit, plan or calendar of a lane and assigns new slots to its waiting items, in one step. Preview it first.
///
/// With `dryRun` the answer shows why deadlines are missed, the settings that would suffice, and the effect of the change.
/// Repeat the request with the `digest` of that answer to apply the change. 409 `preview_stale` if the lane has been changed
/// since, if the preview is older than 15 minutes, or if the effect has become worse.
#[utoipa::path(
    post, path = "/admin/lanes/{lane}/adjust", operation_id = "adjustLane", tag = "lanes",
    params(("lane" = String, Path, description = "The lane's name.", example = "default")),
    request_body = contract::LaneAdjustment,
    responses((status = 200, description = "The preview, or what was done.", body = contract::LaneAdjusted), Changes),
)]
async fn adjust(
    State(app): State<App>,
    caller: Caller,
    Path(lane): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::LaneAdjusted>, ApiError> {
    let request: contract::LaneAdjustment = parse(&headers, body)?;
    let lane = app.lane_named(Some(lane)).await?;
    let change = lane_change(request.change)?;
    if request.dry_run {
        return Ok(Json(app.previewed(&lane, change).await?.shown));
    }
    let because = "is required to adjust a lane";
    let because = request.reason.ok_or_else(|| wrong("reason", because))?;
    let author = author(&caller, because)?;
    let what = "is required to adjust a lane; send the request with \"dryRun\": true first";
    let digest = request.digest.ok_or_else(|| wrong("digest", what))?;
    let found = app.previewed(&lane, change).await?;
    let now = app.store.now().await?;
    let seen =
        Seen::parse(&digest).ok_or_else(|| wrong("digest", "does not belong to a preview"))?;
    if let Some(why) = seen.stale(&found, now) {
        return Err(stale(why));
    }
    if let Some(why) = found.shown.strands.clone().filter(|_| !request.confirm) {
        return Err(ApiError::unconfirmed(why));
    }
    let (way, change) = (app.way(&lane).await?, change_to(&found.after));
    let done = app
        .planner
        .adjust(&lane.name, lane.version, change, way, author)
        .await?;
    let Some((adjusted, effect)) = done else {
        return Err(stale(CHANGED));
    };
    app.forecaster.forget();
    app.acted(caller.name(), "lane adjusted", lane.name.as_str());
    Ok(Json(contract::LaneAdjusted {
        applied: true,
        version: adjusted.version,
        effect: contract::Shift::of(effect),
        strands: None,
        digest: None,
        expires_at: None,
        ..found.shown
    }))
}

const CHANGED: &str = "the lane or the proposal was changed after the preview";

fn stale(why: &str) -> ApiError {
    let why = format!("{why}; nothing was done, preview the adjustment again");
    ApiError::conflict(why).coded(Code::PreviewStale)
}

/// All numbers of a lane, as the change that makes them.
fn change_to(lane: &Lane) -> LaneChange {
    LaneChange {
        max_per_second: Some(lane.max_per_second.normalize()),
        max_per_window: Some(lane.max_per_window),
        window_size_secs: Some(lane.window_size_secs),
        spread: Some(lane.spread),
        calendar: Some(lane.calendar.clone()),
        ..LaneChange::default()
    }
}

/// What would be done, and the lane as it would be.
struct Preview {
    shown: contract::LaneAdjusted,
    after: Lane,
}

impl App {
    async fn way(&self, lane: &LaneInForce) -> Result<std::time::Duration, ApiError> {
        let foreseen = self.forecaster.lane_as_in(lane).await?;
        Ok(foreseen.map_or(LEAST_WAY, |foreseen| foreseen.table.way))
    }

    async fn queue_under(&self, lane: &LaneInForce) -> Result<contract::Forecast, ApiError> {
        let now = self.store.now().await?;
        let imagined = self.forecaster.imagined(lane).await?;
        let imagined = imagined.ok_or_else(|| no_lane(&lane.name))?;
        forecast::of_queue(self, &imagined, now).await
    }

    /// What would be done, and what it would change.
    async fn previewed(&self, lane: &LaneInForce, change: LaneChange) -> Result<Preview, ApiError> {
        let present = self.queue_under(lane).await?;
        let change = if change == LaneChange::default() {
            LaneChange {
                max_per_second: present.enough.as_ref().map(|it| it.max_per_second.into()),
                max_per_window: present.enough.as_ref().map(|it| it.max_per_window),
                ..LaneChange::default()
            }
        } else {
            change
        };
        let proposed = self.planner.lane(&lane.name, change.clone()).await?;
        let then = self.queue_under(&proposed).await?;
        let effect = then.queue.ok_or_else(|| stale(CHANGED))?;
        let strands = self.planner.strands(&lane.name, change).await?;
        let after = proposed.lane;
        let now = self.store.now().await?;
        let seen = Seen {
            version: lane.version,
            at: now.as_second(),
            missed: effect.missed_after,
            hash: hash(lane.name.as_str(), &after),
        };
        let shown = contract::LaneAdjusted {
            lane: lane.name.to_string(),
            applied: false,
            version: lane.version,
            before: contract::LaneSettings::of(&lane.lane),
            after: contract::LaneSettings::of(&after),
            binds: present.binds,
            enough: present.enough,
            verdict: present.verdict,
            effect,
            verdict_after: then.verdict,
            strands,
            digest: Some(seen.to_string()),
            expires_at: now.checked_add(PREVIEW_LASTS).ok(),
        };
        Ok(Preview { shown, after })
    }
}

/// What the person who confirms has seen: a digest says so by itself, so a preview writes nothing.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    version: i64,
    at: i64,
    missed: u64,
    hash: String,
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            version,
            at,
            missed,
            hash,
        } = self;
        write!(f, "{version}-{at}-{missed}-{hash}")
    }
}

impl Seen {
    fn parse(digest: &str) -> Option<Self> {
        let mut parts = digest.splitn(4, '-');
        Some(Self {
            version: parts.next()?.parse().ok()?,
            at: parts.next()?.parse().ok()?,
            missed: parts.next()?.parse().ok()?,
            hash: parts.next()?.to_owned(),
        })
    }

    /// Why it is not what would be done now.
    fn stale(&self, found: &Preview, now: Timestamp) -> Option<&'static str> {
        let shown = &found.shown;
        if self.version != shown.version || self.hash != hash(&shown.lane, &found.after) {
            return Some(CHANGED);
        }
        let age = now.as_second().saturating_sub(self.at);
        if !(0..=PREVIEW_LASTS.as_secs()).contains(&age) {
            return Some("the preview is older than 15 minutes");
        }
        let margin = self.missed.saturating_mul(WORSE_PERCENT) / 100;
        let is_worse = shown.effect.missed_after > self.missed.saturating_add(margin);
        is_worse.then_some("more deadlines would be missed than in the preview")
    }
}

fn hash(lane: &str, after: &Lane) -> String {
    let limit = after.max_per_second.normalize();
    let (plan, secs) = (after.max_per_window, after.window_size_secs);
    let (spread, calendar) = (after.spread, &after.calendar);
    let text = format!("{lane}\n{limit}\n{plan}\n{secs}\n{spread:?}\n{calendar:?}");
    hex::encode(&Sha256::digest(text)[..8])
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(adjust))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_was_written_and_nothing_else_is_one() {
        let seen = Seen {
            version: 7,
            at: 1_700_000_000,
            missed: 12,
            hash: "0011aabb".into(),
        };
        assert_eq!(Seen::parse(&seen.to_string()), Some(seen));
        for bad in ["", "7", "7-1-2", "x-1-2-a", "7--2-a"] {
            assert_eq!(Seen::parse(bad), None, "{bad:?}");
        }
    }
}
