//! `GET /payments/bulk/{batchId}`: how far a file is, what happened to its lines, and whether they meet their deadlines.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::forecast::Enough;
use tollgate_core::id::{BulkId, LaneName};
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{BulkSum, BulkView, FailingChunk};
use utoipa::IntoParams;

use super::deadlines::deadlines;
use super::since::since;
use crate::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::Finds;
use crate::request::extract::{Path, Query};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ImportQuery {
    /// Also compute the limit that would meet every deadline. Takes seconds on a long queue.
    #[serde(default)]
    enough: bool,
    /// Also count its payments by their current status.
    #[serde(default)]
    since: bool,
}

impl Of<Enough> for contract::BulkEnough {
    fn of(enough: Enough) -> Self {
        Self {
            max_per_second: enough.max_per_second,
            max_per_window: enough.max_per_window,
        }
    }
}

/// Progress of an import: counts of accepted, duplicate and rejected lines, slots and deadlines.
#[utoipa::path(
    get, path = "/payments/bulk/{batch}", operation_id = "showBulk", tag = "imports",
    params(("batch" = String, Path, description = "The `batchId` of the upload."), ImportQuery),
    responses((status = 200, description = "The current state of the import.", body = contract::BulkState), Finds),
)]
pub(super) async fn show(
    State(app): State<App>,
    Path(batch): Path<String>,
    Query(asked): Query<ImportQuery>,
) -> Result<Json<contract::BulkState>, ApiError> {
    let view = found(&app, &batch).await?;
    let mut lanes = by_lane(&view.sums);
    if asked.enough {
        for lane in lanes.iter_mut().filter(|lane| lane.misses > 0) {
            let in_force = app.lane_named(Some(lane.lane.clone())).await?;
            let foreseen = app.forecaster.lane(&LaneName::new(&lane.lane)).await?;
            let way = foreseen.map_or(Duration::ZERO, |foreseen| foreseen.table.way);
            let enough = app.planner.enough(&in_force, way).await?;
            lane.enough = enough.map(contract::BulkEnough::of);
        }
    }
    let deadline = deadlines(&app, &view, &lanes, asked.enough).await?;
    let since = if asked.since {
        Some(since(&app, &view).await?)
    } else {
        None
    };
    Ok(Json(contract::BulkState {
        since,
        deadline,
        first_slot: lanes.iter().map(|lane| lane.first_slot).min(),
        last_slot: lanes.iter().map(|lane| lane.last_slot).max(),
        amounts: amounts(&view.sums),
        lanes,
        batch_id: view.bulk.to_string(),
        item_type: view.item_type.to_string(),
        file_name: view.origin.file_name,
        actor: view.origin.actor,
        state: view.state.as_str().to_owned(),
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

/// An import that was begun, or 404.
pub(crate) async fn found(app: &App, batch: &str) -> Result<BulkView, ApiError> {
    let view = app.store.bulk(&BulkId::new(batch)).await?;
    view.ok_or_else(|| ApiError::not_found(format!("there is no batch {batch}")))
}

pub(super) fn by_lane(sums: &[BulkSum]) -> Vec<contract::BulkLane> {
    let mut lanes: BTreeMap<&LaneName, contract::BulkLane> = BTreeMap::new();
    for sum in sums {
        let lane = lanes
            .entry(&sum.lane)
            .or_insert_with(|| contract::BulkLane {
                lane: sum.lane.to_string(),
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

fn amounts(sums: &[BulkSum]) -> Vec<contract::BulkAmount> {
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
    let one = |(code, (count, minor)): (&str, (u64, i64))| contract::BulkAmount {
        currency: code.to_owned(),
        count,
        amount: amount(code, minor),
    };
    amounts.into_iter().map(one).collect()
}
