//! `GET /payments/bulk/{batchId}` and its `/errors`: how far a file is, what became of its lines,
//! and whether they meet their deadlines.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::forecast::Enough;
use tollgate_core::id::{BulkId, LaneName};
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{BulkSum, BulkView, FailingChunk, LineError};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::body::wrong;
use super::error::ApiError;
use super::extract::{Path, Query};
use super::foreseen::Provisional;
use super::refusals::Finds;
use super::words;

const PAGE: u32 = 100;
const MOST_PER_PAGE: u32 = 1000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Asked {
    /// Also compute the limit that would meet every deadline. Takes seconds on a long queue.
    #[serde(default)]
    enough: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BulkState)]
pub(super) struct StateResponse {
    #[schema(value_type = String)]
    batch_id: BulkId,
    #[schema(schema_with = words::bulk_state)]
    state: &'static str,
    /// Number of non-blank lines. During the upload: so far.
    lines: u64,
    accepted: u64,
    duplicate: u64,
    rejected: u64,
    /// End of the upload.
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    /// Whether competing payments got their slots in file order. False if a chunk of the file kept
    /// failing for 30 seconds and later chunks overtook it.
    order_kept: bool,
    /// Slots of the accepted payments as assigned at intake. A replan may have moved them since.
    first_slot: Option<Timestamp>,
    last_slot: Option<Timestamp>,
    amounts: Vec<AmountResponse>,
    lanes: Vec<LaneResponse>,
    /// Null if none of the accepted payments has a deadline.
    deadline: Option<DeadlineResponse>,
    /// Why some lines have no slot yet, and when Tollgate tries again. Null if nothing is blocked.
    why_not_running: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BulkAmount)]
pub(super) struct AmountResponse {
    currency: String,
    count: u64,
    amount: String,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BulkLane)]
pub(super) struct LaneResponse {
    #[schema(value_type = String)]
    lane: LaneName,
    accepted: u64,
    first_slot: Timestamp,
    last_slot: Timestamp,
    meets: u64,
    misses: u64,
    /// The limit that would meet every deadline on the lane. Only if requested and if such a limit exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    enough: Option<EnoughResponse>,
}

#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BulkEnough)]
pub(super) struct EnoughResponse {
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

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BulkDeadline)]
pub(super) struct DeadlineResponse {
    meets: u64,
    misses: u64,
    /// When the deadlines were checked: always `intake`, when each payment got its slot.
    as_of: &'static str,
    verdict: String,
    /// Why no estimate is available for the waiting payments; otherwise null.
    provisional: Option<Provisional>,
}

/// Progress of an import: counts of accepted, duplicate and rejected lines, slots and deadlines.
#[utoipa::path(
    get, path = "/payments/bulk/{batch}", operation_id = "showBulk", tag = "imports",
    params(("batch" = String, Path, description = "The `batchId` of the upload."), Asked),
    responses((status = 200, description = "The current state of the import.", body = StateResponse), Finds),
)]
pub(super) async fn show(
    State(app): State<App>,
    Path(batch): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Json<StateResponse>, ApiError> {
    let view = found(&app, &batch).await?;
    let mut lanes = by_lane(&view.sums);
    if asked.enough {
        for lane in lanes.iter_mut().filter(|lane| lane.misses > 0) {
            let in_force = app.lane_named(Some(lane.lane.to_string())).await?;
            let foreseen = app.forecaster.lane(&lane.lane).await?;
            let way = foreseen.map_or(Duration::ZERO, |foreseen| foreseen.table.way);
            lane.enough = app.planner.enough(&in_force, way).await?.map(Into::into);
        }
    }
    let mut deadline = deadline(&view.sums, &lanes, asked.enough);
    if let Some(deadline) = &mut deadline {
        deadline.provisional = provisional(&app, &lanes).await?;
        if let Some(provisional) = &deadline.provisional {
            let reason = provisional.reason();
            deadline.verdict = format!("{}; no estimate is available: {reason}", deadline.verdict);
        }
    }
    Ok(Json(StateResponse {
        deadline,
        first_slot: lanes.iter().map(|lane| lane.first_slot).min(),
        last_slot: lanes.iter().map(|lane| lane.last_slot).max(),
        amounts: amounts(&view.sums),
        lanes,
        batch_id: view.bulk,
        state: view.state.as_str(),
        lines: view.lines,
        accepted: view.accepted,
        duplicate: view.duplicate,
        rejected: view.rejected,
        started_at: view.started_at,
        ended_at: view.ended_at,
        order_kept: view.order_kept,
        why_not_running: view.failing.as_ref().map(why),
    }))
}

/// Of the first lane whose time cannot be told.
async fn provisional(app: &App, lanes: &[LaneResponse]) -> Result<Option<Provisional>, ApiError> {
    for lane in lanes {
        let Some(forecast) = app.forecaster.lane(&lane.lane).await? else {
            continue;
        };
        if let Err(untold) = &forecast.drained {
            return Ok(Some(Provisional::from(untold)));
        }
    }
    Ok(None)
}

fn why(failing: &FailingChunk) -> String {
    let FailingChunk {
        number,
        failed,
        why,
        due,
    } = failing;
    let times = if *failed == 1 { "time" } else { "times" };
    format!("chunk {number} failed {failed} {times} ({why}); next attempt at {due}")
}

async fn found(app: &App, batch: &str) -> Result<BulkView, ApiError> {
    let view = app.store.bulk(&BulkId::new(batch)).await?;
    view.ok_or_else(|| ApiError::not_found(format!("there is no batch {batch}")))
}

fn by_lane(sums: &[BulkSum]) -> Vec<LaneResponse> {
    let mut lanes: BTreeMap<&LaneName, LaneResponse> = BTreeMap::new();
    for sum in sums {
        let lane = lanes.entry(&sum.lane).or_insert_with(|| LaneResponse {
            lane: sum.lane.clone(),
            accepted: 0,
            first_slot: sum.first_slot,
            last_slot: sum.last_slot,
            meets: 0,
            misses: 0,
            enough: None,
        });
        lane.accepted += sum.accepted;
        lane.meets += sum.met;
        lane.misses += sum.missed;
        lane.first_slot = lane.first_slot.min(sum.first_slot);
        lane.last_slot = lane.last_slot.max(sum.last_slot);
    }
    lanes.into_values().collect()
}

fn amounts(sums: &[BulkSum]) -> Vec<AmountResponse> {
    let mut amounts: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    for sum in sums {
        let (count, minor) = amounts.entry(&sum.currency).or_default();
        *count += sum.accepted;
        *minor += sum.amount_minor;
    }
    let amount = |code: &str, minor: i64| match Currency::from_code(code) {
        Some(currency) => Money { minor, currency }.decimal(),
        None => minor.to_string(),
    };
    let one = |(code, (count, minor)): (&str, (u64, i64))| AmountResponse {
        currency: code.to_owned(),
        count,
        amount: amount(code, minor),
    };
    amounts.into_iter().map(one).collect()
}

/// The numbers, and what to say about them.
fn deadline(sums: &[BulkSum], lanes: &[LaneResponse], asked: bool) -> Option<DeadlineResponse> {
    let first = sums
        .iter()
        .filter_map(|sum| sum.deadlines)
        .map(|d| d.0)
        .min()?;
    let last = sums
        .iter()
        .filter_map(|sum| sum.deadlines)
        .map(|d| d.1)
        .max()?;
    let (meets, misses) = lanes.iter().fold((0, 0), |(meets, misses), lane| {
        (meets + lane.meets, misses + lane.misses)
    });
    let which = if first == last {
        format!("the deadline of {first}")
    } else {
        "their deadlines".to_owned()
    };
    let mut verdict = vec![match (meets, misses) {
        (meets, 0) => format!("all {} meet {which}", grouped(meets)),
        _ => format!(
            "{} meet {which}, {} do not",
            grouped(meets),
            grouped(misses)
        ),
    }];
    for lane in lanes.iter().filter(|lane| asked && lane.misses > 0) {
        let of = match lanes.len() {
            1 => String::new(),
            _ => format!(" on lane \"{}\"", lane.lane),
        };
        verdict.push(match lane.enough {
            Some(enough) => format!(
                "{} a second with a plan of {} per window{of} would suffice",
                enough.max_per_second, enough.max_per_window
            ),
            None => format!("no limit{of} would suffice"),
        });
    }
    Some(DeadlineResponse {
        meets,
        misses,
        as_of: "intake",
        verdict: verdict.join("; "),
        provisional: None,
    })
}

/// `1,590`
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// Page token: the last line number of the previous page.
    #[serde(default)]
    after: u64,
    /// Default: 100, maximum: 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BulkErrors)]
pub(super) struct ErrorsResponse {
    errors: Vec<ErrorResponse>,
    /// Page token: pass it as `after`. Null on the last page.
    next: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BulkLineError)]
pub(super) struct ErrorResponse {
    line: u64,
    payment_id: Option<String>,
    details: BTreeMap<String, String>,
}

impl From<LineError> for ErrorResponse {
    fn from(error: LineError) -> Self {
        Self {
            line: error.line,
            payment_id: error.id,
            details: error.details,
        }
    }
}

/// Rejected lines of an import, by line number.
#[utoipa::path(
    get, path = "/payments/bulk/{batch}/errors", operation_id = "listBulkErrors", tag = "imports",
    params(("batch" = String, Path, description = "The `batchId` of the upload."), Page),
    responses((status = 200, description = "One page.", body = ErrorsResponse), Finds),
)]
pub(super) async fn errors(
    State(app): State<App>,
    Path(batch): Path<String>,
    Query(page): Query<Page>,
) -> Result<Json<ErrorsResponse>, ApiError> {
    let limit = page.limit.unwrap_or(PAGE);
    if !(1..=MOST_PER_PAGE).contains(&limit) {
        return Err(wrong("limit", format!("must be from 1 to {MOST_PER_PAGE}")));
    }
    let view = found(&app, &batch).await?;
    let errors = app.store.bulk_errors(&view.bulk, page.after, limit).await?;
    let is_full = u32::try_from(errors.len()).is_ok_and(|len| len == limit);
    let next = errors.last().filter(|_| is_full).map(|last| last.line);
    let errors = errors.into_iter().map(Into::into).collect();
    Ok(Json(ErrorsResponse { errors, next }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(lane: &str, met: u64, missed: u64, deadline: i64) -> BulkSum {
        let time = |secs| Timestamp::from_second(secs).unwrap();
        BulkSum {
            lane: LaneName::new(lane),
            currency: "EUR".into(),
            accepted: met + missed,
            amount_minor: 150,
            met,
            missed,
            first_slot: time(10),
            last_slot: time(20),
            deadlines: Some((time(deadline), time(deadline))),
        }
    }

    fn verdict(sums: &[BulkSum], enough: Option<u32>) -> String {
        let mut lanes = by_lane(sums);
        for lane in &mut lanes {
            lane.enough = enough.map(|max_per_second| EnoughResponse {
                max_per_second,
                max_per_window: 4 * max_per_second,
            });
        }
        deadline(sums, &lanes, enough.is_some()).unwrap().verdict
    }

    #[test]
    fn the_verdict_is_a_sentence() {
        let table = [
            (
                verdict(&[sum("a", 998_410, 1_590, 60)], Some(52)),
                "998,410 meet the deadline of 1970-01-01T00:01:00Z, 1,590 do not; 52 a second with a plan of 208 per window would suffice",
            ),
            (
                verdict(&[sum("a", 1000, 0, 60)], None),
                "all 1,000 meet the deadline of 1970-01-01T00:01:00Z",
            ),
            (
                verdict(&[sum("a", 0, 1, 60), sum("b", 5, 0, 61)], Some(3)),
                "5 meet their deadlines, 1 do not; 3 a second with a plan of 12 per window on lane \"a\" would suffice",
            ),
        ];
        for (said, expected) in table {
            assert_eq!(said, expected);
        }
        assert_eq!(
            amounts(&[sum("a", 1, 1, 1), sum("b", 1, 0, 1)])[0].amount,
            "3.00"
        );
    }
}
