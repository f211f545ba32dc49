//! Bulks as people and the import runner ask about them.

use tollgate_core::Timestamp;
use tollgate_core::id::{BulkId, ItemType};
use tollgate_core::ports::{
    BulkLine, BulkOrigin, BulkState, BulkSum, BulkView, ChunkBefore, ChunkId, ChunkToDo,
    ChunksBefore, FailingChunk, HELD_BACK, LineError, MOST_BEFORE, Page, PageFrom, PageToken,
    StoreResult, rows_needed,
};

use crate::sql::{Row, Sql, Tx, params};
use crate::value::micros;

/// A bulk has thousands of chunks and few run, so each is asked for its first ones. Files come first; of the partitions
/// of feeds the chunk that was read longest ago, so that no partition waits for another that is always full. Records
/// that were produced at one time are taken in at one time, too: their ids are often neighbours in the indexes.
pub(super) async fn to_do(
    tx: &Tx,
    item_type: &ItemType,
    limit: u32,
) -> StoreResult<Vec<ChunkToDo>> {
    const TO_DO: Sql = Sql::each(
        "SELECT k.bulk_id, k.chunk_no, k.tries + k.holds AS tries FROM bulk b INDEXED BY bulk_running
         JOIN bulk_chunk k ON k.bulk_id = b.bulk_id
         WHERE b.item_type = $1 AND b.state = 'RUNNING' AND k.due_at <= $3
           AND NOT coalesce((SELECT min(e.chunk_no) < k.chunk_no AND min(e.failing_since) >= $4
                             FROM bulk_chunk e WHERE e.bulk_id = k.bulk_id AND e.tries > 0), 0)
         ORDER BY CASE WHEN b.bulk_id LIKE 'feed.%' THEN k.added_at ELSE 0 END,
             b.bulk_id, k.chunk_no LIMIT $2",
        "SELECT k.bulk_id, k.chunk_no, k.tries + k.holds AS tries FROM bulk b
         CROSS JOIN LATERAL (SELECT min(chunk_no) AS by, min(failing_since) AS since
             FROM bulk_chunk WHERE bulk_id = b.bulk_id AND tries > 0) held
         CROSS JOIN LATERAL (SELECT bulk_id, chunk_no, tries, holds, added_at FROM bulk_chunk
             WHERE bulk_id = b.bulk_id AND due_at <= $3
               AND (held.by IS NULL OR chunk_no <= held.by OR held.since < $4)
             ORDER BY chunk_no LIMIT $2) k
         WHERE b.item_type = $1 AND b.state = 'RUNNING'
         ORDER BY CASE WHEN b.bulk_id LIKE 'feed.%' THEN k.added_at ELSE 0 END,
             b.bulk_id, k.chunk_no LIMIT $2",
    );
    let now = tx.now().await?;
    let held_since = now.as_microsecond() - micros(HELD_BACK);
    let wanted = params![item_type, limit, now, held_since];
    let rows = tx.rows(TO_DO, wanted).await;
    let chunk = |row: &Row| {
        Ok(ChunkToDo {
            chunk: ChunkId {
                bulk: row.get("bulk_id")?,
                number: row.get("chunk_no")?,
            },
            tries: row.get("tries")?,
        })
    };
    rows.iter().map(chunk).collect()
}

pub(super) async fn before(tx: &Tx, chunk: &ChunkId) -> StoreResult<ChunksBefore> {
    const BEFORE: &str = "SELECT chunk_no, failing_since FROM bulk_chunk
         WHERE bulk_id = $1 AND chunk_no < $2 ORDER BY chunk_no LIMIT $3";
    let wanted = params![&chunk.bulk, chunk.number, MOST_BEFORE];
    let rows = tx.rows(BEFORE, wanted).await;
    let before = |row: &Row| {
        Ok(ChunkBefore {
            number: row.get("chunk_no")?,
            failing_since: row.get("failing_since")?,
        })
    };
    Ok(ChunksBefore {
        now: tx.now().await?,
        chunks: rows.iter().map(before).collect::<StoreResult<_>>()?,
    })
}

/// One statement for the bulk and its sums, so that they are of one moment.
pub(super) async fn view(tx: &Tx, bulk: &BulkId) -> StoreResult<Option<BulkView>> {
    const VIEW: &str = "SELECT b.item_type, b.state, b.lines, b.accepted, b.duplicate, b.rejected,
                b.opened_at, b.started_at, b.ended_at, b.order_kept, b.file_name, b.actor,
                s.lane, s.currency, s.accepted AS sum_accepted, s.amount_minor, s.met, s.missed,
                s.first_slot, s.last_slot, s.first_deadline, s.last_deadline
         FROM bulk b LEFT JOIN bulk_sum s ON s.bulk_id = b.bulk_id
         WHERE b.bulk_id = $1 AND b.state <> 'DISCARDED' ORDER BY s.lane, s.currency";
    let rows = tx.rows(VIEW, params![bulk]).await;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let sums = rows.iter().filter_map(|row| sum_from(row).transpose());
    Ok(Some(BulkView {
        bulk: bulk.clone(),
        item_type: row.get("item_type")?,
        origin: origin_from(row)?,
        state: row.word("state", BulkState::parse)?,
        lines: row.get("lines")?,
        accepted: row.get("accepted")?,
        duplicate: row.get("duplicate")?,
        rejected: row.get("rejected")?,
        opened_at: row.get("opened_at")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
        order_kept: row.get("order_kept")?,
        sums: sums.collect::<StoreResult<_>>()?,
        failing: failing(tx, bulk).await?,
    }))
}

/// Nothing in the one row of a bulk without sums.
fn sum_from(row: &Row) -> StoreResult<Option<BulkSum>> {
    let Some(lane) = row.get("lane")? else {
        return Ok(None);
    };
    let first: Option<Timestamp> = row.get("first_deadline")?;
    Ok(Some(BulkSum {
        lane,
        currency: row.get("currency")?,
        accepted: row.get("sum_accepted")?,
        amount_minor: row.get("amount_minor")?,
        met: row.get("met")?,
        missed: row.get("missed")?,
        first_slot: row.get("first_slot")?,
        last_slot: row.get("last_slot")?,
        deadlines: first.zip(row.get("last_deadline")?),
    }))
}

async fn failing(tx: &Tx, bulk: &BulkId) -> StoreResult<Option<FailingChunk>> {
    const FAILING: &str = "SELECT chunk_no, tries, coalesce(last_error, '') AS why, due_at
         FROM bulk_chunk WHERE bulk_id = $1 AND tries > 0 ORDER BY tries DESC, chunk_no LIMIT 1";
    let Some(row) = tx.row(FAILING, params![bulk]).await else {
        return Ok(None);
    };
    Ok(Some(FailingChunk {
        number: row.get("chunk_no")?,
        failed: row.get("tries")?,
        why: row.get("why")?,
        due: row.get("due_at")?,
    }))
}

pub(super) async fn lines(
    tx: &Tx,
    item_type: &ItemType,
    from: PageFrom<PageToken>,
    limit: u32,
) -> StoreResult<Page<BulkLine, PageToken>> {
    const OLDER: &str = "SELECT bulk_id, state, lines, accepted, duplicate, rejected, opened_at,
                ended_at, file_name, actor
         FROM bulk
         WHERE item_type = $1 AND state <> 'DISCARDED' AND (opened_at, bulk_id) < ($2, $3)
         ORDER BY opened_at DESC, bulk_id DESC LIMIT $4";
    const NEWER: &str = "SELECT bulk_id, state, lines, accepted, duplicate, rejected, opened_at,
                ended_at, file_name, actor
         FROM bulk
         WHERE item_type = $1 AND state <> 'DISCARDED' AND (opened_at, bulk_id) > ($2, $3)
         ORDER BY opened_at, bulk_id LIMIT $4";
    let asked = rows_needed(limit, false);
    let (place, upwards) = from.clone().bounds(false);
    let sql = if upwards { NEWER } else { OLDER };
    let wanted = params![item_type, place.rank, place.id, asked];
    let rows = tx.rows(sql, wanted).await;
    let rows = rows.iter().map(line_from).collect::<StoreResult<_>>()?;
    Ok(Page::beside(
        rows,
        asked,
        limit,
        &from,
        BulkLine::page_token,
    ))
}

fn origin_from(row: &Row) -> StoreResult<BulkOrigin> {
    Ok(BulkOrigin {
        file_name: row.get("file_name")?,
        actor: row.get("actor")?,
    })
}

fn line_from(row: &Row) -> StoreResult<BulkLine> {
    Ok(BulkLine {
        bulk: row.get("bulk_id")?,
        origin: origin_from(row)?,
        state: row.word("state", BulkState::parse)?,
        lines: row.get("lines")?,
        accepted: row.get("accepted")?,
        duplicate: row.get("duplicate")?,
        rejected: row.get("rejected")?,
        opened_at: row.get("opened_at")?,
        ended_at: row.get("ended_at")?,
    })
}

pub(super) async fn errors(
    tx: &Tx,
    bulk: &BulkId,
    after_line: u64,
    limit: u32,
) -> StoreResult<Vec<LineError>> {
    const ERRORS: &str = "SELECT line_no, item_id, details, line_text FROM bulk_error
         WHERE bulk_id = $1 AND line_no > $2 ORDER BY line_no LIMIT $3";
    let rows = tx.rows(ERRORS, params![bulk, after_line, limit]).await;
    let error = |row: &Row| {
        Ok(LineError {
            line: row.get("line_no")?,
            id: row.get("item_id")?,
            details: row.json("details")?,
            text: row.get("line_text")?,
        })
    };
    rows.iter().map(error).collect()
}
