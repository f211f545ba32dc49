//! `POST /admin/lanes/{lane}/adjust`: limit, plan and calendar of a lane and the slots of what waits, in one act that
//! is previewed first. Without numbers it proposes those that would meet every deadline.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tollgate_core::id::{CalendarName, LaneName};
use tollgate_core::lane::{Lane, LaneChange, Spread};
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::{SignedDuration, Timestamp};
use tollgate_dispatch::LEAST_WAY;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::forecast::{self, EnoughResponse};
use super::rate_limit::ChangeRequest;
use super::replan_effect::ReplanEffectResponse;
use crate::api::App;
use crate::api::answer::codes::Code;
use crate::api::answer::error::ApiError;
use crate::api::contract::refusals::Changes;
use crate::api::contract::words;
use crate::api::request::body::{Body, author, parse, wrong};
use crate::api::request::extract::Path;
use crate::door::auth::Caller;

/// A preview can be confirmed for this long.
const PREVIEW_LASTS: SignedDuration = SignedDuration::from_mins(15);
/// A preview is stale if more deadlines would be missed than it showed, by more than one in a hundred.
const WORSE_PERCENT: u64 = 1;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = LaneAdjustment, example = json!({"dryRun": true, "maxPerSecond": 50, "maxPerWindow": 200}))]
struct AdjustRequest {
    /// Without any number: those that would meet every deadline.
    #[serde(flatten)]
    change: ChangeRequest,
    /// Reason, recorded in the audit log. Required unless `dryRun` is true.
    #[schema(min_length = 1, max_length = 500)]
    reason: Option<String>,
    /// Preview only; change nothing.
    #[serde(default)]
    dry_run: bool,
    /// The `digest` of the preview. Required unless `dryRun` is true.
    digest: Option<String>,
    /// Required if the change would leave waiting items without a slot.
    #[serde(default)]
    confirm: bool,
}

/// The numbers of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LaneSettings)]
struct Numbers {
    #[schema(value_type = f64, example = 50.0)]
    max_per_second: Decimal,
    #[schema(example = 100)]
    max_per_window: u32,
    #[schema(example = 4)]
    window_size_secs: u32,
    #[schema(schema_with = words::spread)]
    spread: Spread,
    #[schema(value_type = Option<String>)]
    calendar: Option<CalendarName>,
}

impl From<&Lane> for Numbers {
    fn from(lane: &Lane) -> Self {
        Self {
            max_per_second: lane.max_per_second.normalize(),
            max_per_window: lane.max_per_window,
            window_size_secs: lane.window_size_secs,
            spread: lane.spread,
            calendar: lane.calendar.clone(),
        }
    }
}

/// An adjustment of a lane: previewed, or applied.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LaneAdjusted)]
struct AdjustResponse {
    #[schema(value_type = String)]
    lane: LaneName,
    applied: bool,
    /// Version of the lane: the one that the preview is about, or the new one.
    version: i64,
    before: Numbers,
    after: Numbers,
    /// What keeps items that will be late from running earlier, before the adjustment. Null if none will be late.
    #[schema(schema_with = words::binds)]
    binds: Option<&'static str>,
    /// The lowest limit that would meet every deadline, with its plan. Null if every deadline is met already or no
    /// limit would suffice.
    enough: Option<EnoughResponse>,
    /// The forecast before the adjustment, as one sentence.
    verdict: String,
    /// The items that would move, or moved.
    effect: ReplanEffectResponse,
    /// The forecast after the adjustment, as one sentence.
    verdict_after: String,
    /// Why `confirm` is required to apply it; otherwise null.
    strands: Option<String>,
    /// Pass it as `digest` to apply exactly this. Null once it is applied.
    digest: Option<String>,
    /// The preview can be confirmed until this time.
    expires_at: Option<Timestamp>,
}

/// Changes the limit, plan or calendar of a lane and assigns new slots to its waiting items, in one act. Preview it first.
///
/// With `dryRun` the answer shows what keeps deadlines from being met, what would be enough, and the effect. Repeat
/// the request with the `digest` of that answer to apply it. If the lane was changed meanwhile, if the preview
/// is older than 15 minutes, or if the effect has become worse: 409 `preview_stale`.
#[utoipa::path(
    post, path = "/admin/lanes/{lane}/adjust", operation_id = "adjustLane", tag = "lanes",
    params(("lane" = String, Path, description = "The lane's name.", example = "default")),
    request_body = AdjustRequest,
    responses((status = 200, description = "The preview, or what was done.", body = AdjustResponse), Changes),
)]
async fn adjust(
    State(app): State<App>,
    caller: Caller,
    Path(lane): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<AdjustResponse>, ApiError> {
    let request: AdjustRequest = parse(&headers, body)?;
    let lane = app.lane_named(Some(lane)).await?;
    let change = LaneChange::from(request.change);
    if request.dry_run {
        return Ok(Json(app.previewed(&lane, change).await?));
    }
    let because = "is required to adjust a lane";
    let because = request.reason.ok_or_else(|| wrong("reason", because))?;
    let author = author(&caller, because)?;
    let what = "is required to adjust a lane; send the request with \"dryRun\": true first";
    let digest = request.digest.ok_or_else(|| wrong("digest", what))?;
    let found = app.previewed(&lane, change).await?;
    let now = app.store.now().await?;
    let seen = Seen::parse(&digest).ok_or_else(|| wrong("digest", "is not of a preview"))?;
    if let Some(why) = seen.stale(&found, now) {
        return Err(stale(why));
    }
    if let Some(why) = found.strands.clone().filter(|_| !request.confirm) {
        return Err(ApiError::unconfirmed(why));
    }
    let (way, change) = (app.way(&lane).await?, found.after.change());
    let done = app
        .planner
        .adjust(&lane.name, lane.version, change, way, author)
        .await?;
    let Some((adjusted, effect)) = done else {
        return Err(stale(CHANGED));
    };
    app.forecaster.forget();
    app.acted(caller.name(), "lane adjusted", lane.name.as_str());
    Ok(Json(AdjustResponse {
        applied: true,
        version: adjusted.version,
        effect: effect.into(),
        strands: None,
        digest: None,
        expires_at: None,
        ..found
    }))
}

const CHANGED: &str = "the lane or the proposal was changed after the preview";

fn stale(why: &str) -> ApiError {
    let why = format!("{why}; nothing was done, preview the adjustment again");
    ApiError::conflict(why).coded(Code::PreviewStale)
}

impl Numbers {
    fn change(&self) -> LaneChange {
        LaneChange {
            max_per_second: Some(self.max_per_second),
            max_per_window: Some(self.max_per_window),
            window_size_secs: Some(self.window_size_secs),
            spread: Some(self.spread),
            calendar: Some(self.calendar.clone()),
            ..LaneChange::default()
        }
    }
}

impl App {
    async fn way(&self, lane: &LaneInForce) -> Result<std::time::Duration, ApiError> {
        let foreseen = self.forecaster.lane_as_in(lane).await?;
        Ok(foreseen.map_or(LEAST_WAY, |foreseen| foreseen.table.way))
    }

    async fn queue_under(&self, lane: &LaneInForce) -> Result<forecast::Response, ApiError> {
        let now = self.store.now().await?;
        let imagined = self.forecaster.imagined(lane).await?;
        let gone = || ApiError::not_found(format!("there is no lane \"{}\"", lane.name));
        forecast::of_queue(self, &imagined.ok_or_else(gone)?, now).await
    }

    /// What would be done, and what it would change.
    async fn previewed(
        &self,
        lane: &LaneInForce,
        change: LaneChange,
    ) -> Result<AdjustResponse, ApiError> {
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
        let (before, after) = (Numbers::from(&lane.lane), Numbers::from(&proposed.lane));
        let now = self.store.now().await?;
        let seen = Seen {
            version: lane.version,
            at: now.as_second(),
            missed: effect.missed_after,
            hash: hash(&lane.name, &after),
        };
        Ok(AdjustResponse {
            lane: lane.name.clone(),
            applied: false,
            version: lane.version,
            before,
            after,
            binds: present.binds,
            enough: present.enough,
            verdict: present.verdict,
            effect,
            verdict_after: then.verdict,
            strands,
            digest: Some(seen.to_string()),
            expires_at: now.checked_add(PREVIEW_LASTS).ok(),
        })
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
    fn stale(&self, found: &AdjustResponse, now: Timestamp) -> Option<&'static str> {
        if self.version != found.version || self.hash != hash(&found.lane, &found.after) {
            return Some(CHANGED);
        }
        let age = now.as_second().saturating_sub(self.at);
        if !(0..=PREVIEW_LASTS.as_secs()).contains(&age) {
            return Some("the preview is older than 15 minutes");
        }
        let margin = self.missed.saturating_mul(WORSE_PERCENT) / 100;
        let is_worse = found.effect.missed_after > self.missed.saturating_add(margin);
        is_worse.then_some("more deadlines would be missed than in the preview")
    }
}

fn hash(lane: &LaneName, after: &Numbers) -> String {
    let Numbers {
        max_per_second: limit,
        max_per_window: plan,
        window_size_secs: secs,
        spread,
        calendar,
    } = after;
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
