//! What became of the starts of a claimed batch, and claims given back. Rows are locked in the
//! order of their ids, as everywhere where several are held at once.

use deadpool_postgres::Transaction;
use tollgate_core::actor;
use tollgate_core::id::{BatchId, ItemType, LaneName};
use tollgate_core::ports::{START_PAUSES, StartRecord, Started, StoreResult};

use crate::audit::Entry;
use crate::postgres::accounts::audit;
use crate::postgres::connection::run::{Params, execute, one};
use crate::postgres::connection::value::storable;
use crate::value::micros;

pub(super) async fn record(
    tx: &Transaction<'_>,
    item_type: &ItemType,
    batch: &BatchId,
    starts: &[StartRecord],
    max_retries: u32,
) -> StoreResult<u64> {
    let (mut going, mut failed) = (vec![], vec![]);
    for start in starts {
        match &start.started {
            Started::New | Started::Already => going.push(start),
            Started::Failed(why) => failed.push((start, why.as_str())),
        }
    }
    let dispatched = dispatch(tx, item_type, &going).await?;
    let given_back = fail(tx, item_type, batch, &failed, max_retries).await?;
    let detail = format!(
        "{} claimed, {dispatched} started, {} failed",
        starts.len(),
        failed.len()
    );
    let entry = Entry {
        batch: Some(batch.as_str()),
        action: "BATCH_COMPLETE",
        actor: actor::DISPATCHER,
        detail: &detail,
        ..Entry::default()
    };
    audit(tx, &entry).await?;
    Ok(dispatched + given_back)
}

async fn dispatch(
    tx: &Transaction<'_>,
    item_type: &ItemType,
    going: &[&StartRecord],
) -> StoreResult<u64> {
    const DISPATCH: &str = "SELECT tg_start($1, $2, $3, $4)";
    if going.is_empty() {
        return Ok(0);
    }
    let mut going = going.to_vec();
    going.sort_by(|a, b| a.id.cmp(&b.id));
    let ids: Vec<&str> = going.iter().map(|s| s.id.as_str()).collect();
    let fences: Vec<i64> = going.iter().map(|s| s.fence.0).collect();
    let flows: Vec<&str> = going.iter().map(|s| s.flow.as_str()).collect();
    let params: Params<'_> = &[&item_type.as_str(), &ids, &fences, &flows];
    Ok(one(tx, DISPATCH, params)
        .await?
        .get::<_, i64>(0)
        .unsigned_abs())
}

async fn fail(
    tx: &Transaction<'_>,
    item_type: &ItemType,
    batch: &BatchId,
    failed: &[(&StartRecord, &str)],
    max_retries: u32,
) -> StoreResult<u64> {
    const FAIL: &str = "WITH failed AS MATERIALIZED (
             SELECT q.item_type, q.item_id, s.why
             FROM unnest($2::text[], $3::bigint[], $4::text[]) AS s (item_id, fence, why)
             JOIN item_queue q ON q.item_type = $1 AND q.item_id = s.item_id
             WHERE q.queue_status = 'CLAIMED' AND q.fence = s.fence
             ORDER BY q.item_id FOR UPDATE OF q
         ), moved AS (
             UPDATE item_queue q SET
                 queue_status = CASE WHEN q.retry_count + 1 >= $5 THEN 'DEAD' ELSE 'READY' END,
                 retry_count = q.retry_count + 1, last_error = failed.why, claimed_at = NULL,
                 scheduled_exec_time = greatest(q.scheduled_exec_time, (SELECT tg_now())
                     + ($7::bigint[])[least(q.retry_count + 1, cardinality($7::bigint[]))])
             FROM failed WHERE q.item_type = failed.item_type AND q.item_id = failed.item_id
             RETURNING q.item_type, q.item_id, q.queue_status, failed.why
         )
         INSERT INTO audit_log (batch_id, item_type, item_id, action, status_before, status_after,
                                actor, detail, created_at)
         SELECT $6, item_type, item_id, 'DISPATCH_FAILED', 'CLAIMED', queue_status,
                'dispatcher', why, tg_now()
         FROM moved";
    if failed.is_empty() {
        return Ok(0);
    }
    let ids: Vec<&str> = failed.iter().map(|(s, _)| s.id.as_str()).collect();
    let fences: Vec<i64> = failed.iter().map(|(s, _)| s.fence.0).collect();
    let whys: Vec<_> = failed.iter().map(|(_, why)| storable(why)).collect();
    let (kind, retries, pauses) = (item_type.as_str(), i64::from(max_retries), pauses());
    let batch = batch.as_str();
    let params: Params<'_> = &[&kind, &ids, &fences, &whys, &retries, &batch, &pauses];
    execute(tx, FAIL, params).await
}

/// One after each failure; the last is the longest, and follows all further ones.
fn pauses() -> Vec<i64> {
    let mut pauses: Vec<i64> = vec![];
    for failures in 1.. {
        let pause = START_PAUSES.pause_after(failures);
        pauses.push(micros(pause));
        if pause == START_PAUSES.longest_pause {
            break;
        }
    }
    pauses
}

/// Gives back what is still claimed under a batch, as its next run.
pub(super) async fn release(
    tx: &Transaction<'_>,
    item_type: &ItemType,
    lane: &LaneName,
    batch: &BatchId,
) -> StoreResult<u64> {
    const RELEASE: &str = "WITH given AS MATERIALIZED (
             SELECT q.item_type, q.item_id FROM (
                 SELECT item_id FROM under_way WHERE item_type = $1 AND lane = $2 AND batch_id = $3) u
             JOIN item_queue q ON q.item_type = $1 AND q.item_id = u.item_id
             WHERE q.queue_status = 'CLAIMED' AND q.dispatch_batch_id = $3
             ORDER BY q.item_id FOR UPDATE OF q
         )
         UPDATE item_queue q SET queue_status = 'READY', run = q.run + 1, claimed_at = NULL
         FROM given WHERE q.item_type = given.item_type AND q.item_id = given.item_id";
    let params: Params<'_> = &[&item_type.as_str(), &lane.as_str(), &batch.as_str()];
    execute(tx, RELEASE, params).await
}
