//! What has an age of its own beside items, and the space that goes back to the disk.

use tollgate_core::Timestamp;
use tollgate_core::id::{BulkId, JobId};
use tollgate_core::ports::{Old, StoreResult};

use crate::sql::{Params, Sql, Tx, params};

pub(super) async fn forget(
    tx: &Tx,
    what: Old,
    before: Timestamp,
    at_most: u32,
) -> StoreResult<u64> {
    match what {
        Old::OwnerTotals => Ok(tx.execute(TOTALS, params![before, at_most]).await),
        Old::RefusedRequests => Ok(tx.execute(REQUESTS, params![before, at_most]).await),
        Old::Imports => match import(tx, before, at_most).await? {
            0 => Ok(tx.execute(FEED_LINES, params![before, at_most]).await),
            gone => Ok(gone),
        },
        Old::Jobs => job(tx, before, at_most).await,
        Old::Flows => Ok(tx.execute(FLOWS, params![before, at_most]).await),
    }
}

/// No index has their times: what is left of them is small, since this is done every few minutes.
const TOTALS: Sql = Sql::each(
    "DELETE FROM owner_total WHERE (item_type, owner, currency, quarter) IN (
         SELECT item_type, owner, currency, quarter FROM owner_total WHERE quarter < $1 LIMIT $2)",
    "DELETE FROM owner_total WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM owner_total WHERE quarter < $1 LIMIT $2))",
);
const REQUESTS: Sql = Sql::each(
    "DELETE FROM request WHERE (item_type, item_id) IN (
         SELECT item_type, item_id FROM request
         WHERE state = 'REFUSED' AND ended_at < $1 LIMIT $2)",
    "DELETE FROM request WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM request WHERE state = 'REFUSED' AND ended_at < $1 LIMIT $2))
       AND state = 'REFUSED' AND ended_at < $1",
);

/// A feed never ends: its lines have an age each.
const FEED_LINES: Sql = Sql::each(
    "DELETE FROM bulk_error WHERE (bulk_id, line_no) IN (
         SELECT bulk_id, line_no FROM bulk_error INDEXED BY bulk_error_answered
         WHERE answered_at < $1 ORDER BY answered_at LIMIT $2)",
    "DELETE FROM bulk_error WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM bulk_error WHERE answered_at < $1 ORDER BY answered_at LIMIT $2))
       AND answered_at < $1",
);
/// Items that have a place, or that have ended, do not ask for their flows again. One that is under way does: by how its
/// flow has ended, the sweeper says what follows.
const FLOWS: Sql = Sql::each(
    "DELETE FROM flow WHERE flow_id IN (
         SELECT flow_id FROM flow INDEXED BY flow_ended
         WHERE state IN ('DONE', 'FAILED') AND started_at < $1
           AND flow_id NOT IN (SELECT q.exec_workflow_id FROM item_queue q INDEXED BY item_queue_running
                WHERE q.queue_status = 'DISPATCHED' AND q.finished_at IS NULL
                  AND q.exec_workflow_id IS NOT NULL)
         ORDER BY started_at LIMIT $2)",
    "DELETE FROM flow WHERE flow_id = ANY (ARRAY(
         SELECT flow_id FROM flow
         WHERE state IN ('DONE', 'FAILED') AND started_at < $1
           AND flow_id NOT IN (SELECT u.exec_workflow_id FROM under_way u
                WHERE u.exec_workflow_id IS NOT NULL)
         ORDER BY started_at LIMIT $2))",
);

/// The oldest import, some of its rejected lines at a time; its row goes last.
async fn import(tx: &Tx, before: Timestamp, at_most: u32) -> StoreResult<u64> {
    const OLDEST: &str = "SELECT bulk_id FROM bulk
         WHERE state = 'DONE' AND ended_at < $1 AND bulk_id NOT LIKE 'feed.%' LIMIT 1";
    const LINES: &str = "DELETE FROM bulk_error WHERE bulk_id = $1 AND line_no IN (
             SELECT line_no FROM bulk_error WHERE bulk_id = $1 ORDER BY line_no LIMIT $2)";
    const SUMS: &str = "DELETE FROM bulk_sum WHERE bulk_id = $1";
    const BULK: &str = "DELETE FROM bulk WHERE bulk_id = $1 AND state = 'DONE'";
    let Some(row) = tx.locked_row(OLDEST, params![before]).await else {
        return Ok(0);
    };
    let bulk: BulkId = row.get("bulk_id")?;
    let key = || -> Params { params![&bulk] };
    piece_by_piece(
        tx,
        LINES,
        params![&bulk, at_most],
        at_most,
        [(SUMS, key()), (BULK, key())],
    )
    .await
}

/// The oldest job, some of its results at a time; its row goes last.
async fn job(tx: &Tx, before: Timestamp, at_most: u32) -> StoreResult<u64> {
    const OLDEST: &str = "SELECT job_id FROM job
         WHERE started_at IS NOT NULL AND started_at < $1 AND state IN ('DONE', 'STOPPED')
           AND ended_at < $1 ORDER BY started_at, job_id LIMIT 1";
    const RESULTS: &str = "DELETE FROM job_result WHERE job_id = $1 AND number IN (
             SELECT number FROM job_result WHERE job_id = $1 ORDER BY number LIMIT $2)";
    const CHUNKS: &str = "DELETE FROM job_chunk WHERE job_id = $1";
    const JOB: &str = "DELETE FROM job WHERE job_id = $1 AND state IN ('DONE', 'STOPPED')";
    let Some(row) = tx.locked_row(OLDEST, params![before]).await else {
        return Ok(0);
    };
    let job: JobId = row.get("job_id")?;
    let key = || -> Params { params![&job] };
    piece_by_piece(
        tx,
        RESULTS,
        params![&job, at_most],
        at_most,
        [(CHUNKS, key()), (JOB, key())],
    )
    .await
}

async fn piece_by_piece(
    tx: &Tx,
    rows: &'static str,
    wanted: Params,
    at_most: u32,
    last: [(&'static str, Params); 2],
) -> StoreResult<u64> {
    let gone = tx.execute(rows, wanted).await;
    if gone < u64::from(at_most) {
        for (sql, key) in last {
            tx.execute(sql, key).await;
        }
    }
    Ok(gone.max(1))
}

/// A few pages at a time while more than a quarter of the file is free: less is wanted again by the next payments.
pub(super) async fn give_back(tx: &Tx) -> StoreResult<bool> {
    const FREE: Sql = Sql::each(
        "SELECT f.freelist_count AS free, c.page_count AS pages
         FROM pragma_freelist_count() f, pragma_page_count() c",
        "",
    );
    const GIVE_BACK: &str = "PRAGMA incremental_vacuum(200)";
    let row = tx.one(FREE, params![]).await?;
    let (free, pages): (i64, i64) = (row.get("free")?, row.get("pages")?);
    if free < MIN_FREE_PAGES || free < pages / 4 {
        return Ok(false);
    }
    tx.rows(GIVE_BACK, params![]).await;
    Ok(true)
}

/// 4 MB are not worth a write.
const MIN_FREE_PAGES: i64 = 1000;
