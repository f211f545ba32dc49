//! What a clock that was ahead has left when it is set back: claims, starts and flows of a time that
//! has not come. Without this they would wait until it has.

use deadpool_postgres::Transaction;
use tollgate_core::actor;
use tollgate_core::ports::{CLOCK_WAS_AHEAD, StoreResult, WAS_SET_BACK};

use crate::postgres::connection::run::{execute, now};
use crate::value::micros;

pub(crate) async fn make_due(tx: &Transaction<'_>) -> StoreResult<()> {
    // Whoever asked for a time is not sent before it; whoever asked for none was created at the
    // time that it asked for. Rows are locked in the order of their ids, as everywhere.
    const PUT_BACK: &str = "WITH taken AS MATERIALIZED (
             SELECT item_type, item_id FROM under_way
             WHERE CASE queue_status WHEN 'CLAIMED' THEN claimed_at ELSE dispatched_at END > $2
         ), unsent AS MATERIALIZED (
             SELECT q.item_type, q.item_id, q.queue_status AS before,
                    greatest($1, nullif(q.requested_time, q.created_at)) AS due
             FROM taken JOIN item_queue q USING (item_type, item_id)
             WHERE q.queue_status IN ('CLAIMED', 'DISPATCHED') AND q.finished_at IS NULL
               AND NOT EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = q.item_type AND a.item_id = q.item_id AND a.run = q.run)
             ORDER BY q.item_type, q.item_id FOR UPDATE OF q
         ), moved AS (
             UPDATE item_queue q SET queue_status = 'READY', run = q.run + 1, last_error = $3,
                    claimed_at = NULL, dispatched_at = NULL, scheduled_exec_time = unsent.due
             FROM unsent WHERE q.item_type = unsent.item_type AND q.item_id = unsent.item_id
             RETURNING q.item_type, q.item_id, unsent.before
         )
         INSERT INTO audit_log (item_type, item_id, action, status_before, status_after, actor,
                                detail, created_at)
         SELECT item_type, item_id, 'PUT_BACK', before, 'READY', $4, $3, $1 FROM moved";
    // What has had its turn goes on; from now on it may be stale or orphaned.
    const RESTAMP: &str = "WITH taken AS MATERIALIZED (
             SELECT item_type, item_id FROM under_way
             WHERE CASE queue_status WHEN 'CLAIMED' THEN claimed_at ELSE dispatched_at END > $2
         ), held AS MATERIALIZED (
             SELECT q.item_type, q.item_id FROM taken JOIN item_queue q USING (item_type, item_id)
             WHERE q.queue_status IN ('CLAIMED', 'DISPATCHED') AND q.finished_at IS NULL
             ORDER BY q.item_type, q.item_id FOR UPDATE OF q
         )
         UPDATE item_queue q SET
                claimed_at = CASE q.queue_status WHEN 'CLAIMED' THEN $1 ELSE q.claimed_at END,
                dispatched_at = CASE q.queue_status WHEN 'DISPATCHED' THEN $1 ELSE q.dispatched_at END
         FROM held WHERE q.item_type = held.item_type AND q.item_id = held.item_id";
    const RESTAMP_BATCHES: &str = "UPDATE batch SET claimed_at = $1 WHERE claimed_at > $2";
    const FLOWS: &str = "UPDATE flow SET started_at = $1, due_at = $1 + (due_at - started_at)
         WHERE state = 'PENDING' AND due_at > $1 AND started_at > $2";
    let now = now(tx).await?.0.as_microsecond();
    let ahead = now + micros(CLOCK_WAS_AHEAD);
    let by = actor::TOLLGATE;
    execute(tx, PUT_BACK, &[&now, &ahead, &WAS_SET_BACK, &by]).await?;
    execute(tx, RESTAMP, &[&now, &ahead]).await?;
    execute(tx, RESTAMP_BATCHES, &[&now, &ahead]).await?;
    execute(tx, FLOWS, &[&now, &ahead]).await?;
    Ok(())
}
