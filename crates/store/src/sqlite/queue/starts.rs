//! What became of the dispatcher's starts.

use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::actor;
use tollgate_core::id::{BatchId, Item, ItemType};
use tollgate_core::ports::{START_PAUSES, StartRecord, Started};

use crate::audit::Entry;
use crate::sqlite::accounts::audit;
use crate::sqlite::connection::value::Us;
use crate::value::micros;

pub(super) fn record(
    c: &Connection,
    item_type: &ItemType,
    batch: &BatchId,
    starts: &[StartRecord],
    max_retries: u32,
    now: Us,
) -> rusqlite::Result<u64> {
    let (mut started, mut given_back, mut failed) = (0, 0, 0);
    for start in starts {
        match &start.started {
            Started::New | Started::Already => {
                started += dispatched(c, item_type, start, now)?;
            }
            Started::Failed(why) => {
                failed += 1;
                given_back += start_failed(c, item_type, batch, start, why, max_retries, now)?;
            }
        }
    }
    let claimed = starts.len();
    let detail = format!("{claimed} claimed, {started} started, {failed} failed");
    let entry = Entry {
        batch: Some(batch.as_str()),
        action: "BATCH_COMPLETE",
        actor: actor::DISPATCHER,
        detail: &detail,
        ..Entry::default()
    };
    audit(c, now, &entry)?;
    Ok((started + given_back) as u64)
}

fn dispatched(
    c: &Connection,
    item_type: &ItemType,
    start: &StartRecord,
    now: Us,
) -> rusqlite::Result<usize> {
    c.prepare_cached(
        "UPDATE item_queue SET queue_status = 'DISPATCHED', dispatched_at = ?4,
                exec_workflow_id = ?5
         WHERE item_type = ?1 AND item_id = ?2 AND queue_status = 'CLAIMED' AND fence = ?3",
    )?
    .execute(params![
        item_type.as_str(),
        start.id.as_str(),
        start.fence.0,
        now,
        start.flow.as_str()
    ])
}

fn start_failed(
    c: &Connection,
    item_type: &ItemType,
    batch: &BatchId,
    start: &StartRecord,
    why: &str,
    max_retries: u32,
    now: Us,
) -> rusqlite::Result<usize> {
    let retries: Option<u32> = c
        .prepare_cached(
            "SELECT retry_count + 1 FROM item_queue
             WHERE item_type = ?1 AND item_id = ?2 AND queue_status = 'CLAIMED' AND fence = ?3",
        )?
        .query_row(
            params![item_type.as_str(), start.id.as_str(), start.fence.0],
            |row| row.get(0),
        )
        .optional()?;
    let Some(retries) = retries else {
        return Ok(0);
    };
    let after = if retries >= max_retries {
        "DEAD"
    } else {
        "READY"
    };
    c.prepare_cached(
        "UPDATE item_queue SET queue_status = ?3, retry_count = ?4, last_error = ?5,
                claimed_at = NULL, scheduled_exec_time = max(scheduled_exec_time, ?6)
         WHERE item_type = ?1 AND item_id = ?2 AND queue_status = 'CLAIMED'",
    )?
    .execute(params![
        item_type.as_str(),
        start.id.as_str(),
        after,
        retries,
        why,
        now.0.as_microsecond() + micros(START_PAUSES.pause_after(retries))
    ])?;
    let item = Item::new(item_type, &start.id);
    let entry = Entry {
        batch: Some(batch.as_str()),
        item: Some(&item),
        action: "DISPATCH_FAILED",
        before: Some("CLAIMED"),
        after: Some(after),
        actor: actor::DISPATCHER,
        detail: why,
    };
    audit(c, now, &entry)?;
    Ok(1)
}
