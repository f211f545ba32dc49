//! Bulks as people and the feeder ask about them.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tollgate_core::id::{BulkId, ItemType, LaneName};
use tollgate_core::ports::{
    Bookmark, BulkLine, BulkState, BulkSum, BulkView, ChunkId, ChunkToDo, FailingChunk, LineError,
    Page, rows_needed,
};

use super::value::{Us, word};

pub(super) fn to_do(
    c: &Connection,
    item_type: &ItemType,
    now: i64,
    limit: u32,
) -> rusqlite::Result<Vec<ChunkToDo>> {
    c.prepare_cached(
        "SELECT k.bulk_id, k.chunk_no, k.tries FROM bulk b INDEXED BY bulk_running
         JOIN bulk_chunk k ON k.bulk_id = b.bulk_id
         WHERE b.item_type = ?1 AND b.state = 'RUNNING' AND k.due_at <= ?2
         ORDER BY b.bulk_id, k.chunk_no LIMIT ?3",
    )?
    .query_map(params![item_type.as_str(), now, limit], |row| {
        let chunk = ChunkId {
            bulk: BulkId::new(row.get::<_, String>(0)?),
            number: row.get(1)?,
        };
        let failed = row.get(2)?;
        Ok(ChunkToDo { chunk, failed })
    })?
    .collect()
}

pub(super) fn view(c: &Connection, bulk: &BulkId) -> rusqlite::Result<Option<BulkView>> {
    let view = c
        .prepare_cached(
            "SELECT item_type, state, lines, accepted, duplicate, rejected, opened_at, started_at,
                    ended_at
             FROM bulk WHERE bulk_id = ?1 AND state <> 'DISCARDED'",
        )?
        .query_row([bulk.as_str()], |row| view_from(row, bulk))
        .optional()?;
    let Some(mut view) = view else {
        return Ok(None);
    };
    view.sums = c
        .prepare_cached(
            "SELECT lane, currency, accepted, amount_minor, met, missed, first_slot, last_slot,
                    first_deadline, last_deadline
             FROM bulk_sum WHERE bulk_id = ?1 ORDER BY lane, currency",
        )?
        .query_map([bulk.as_str()], sum_from)?
        .collect::<rusqlite::Result<_>>()?;
    view.failing = failing(c, bulk)?;
    Ok(Some(view))
}

fn failing(c: &Connection, bulk: &BulkId) -> rusqlite::Result<Option<FailingChunk>> {
    c.prepare_cached(
        "SELECT chunk_no, tries, coalesce(last_error, ''), due_at FROM bulk_chunk
         WHERE bulk_id = ?1 AND tries > 0 ORDER BY tries DESC, chunk_no LIMIT 1",
    )?
    .query_row([bulk.as_str()], |row| {
        Ok(FailingChunk {
            number: row.get(0)?,
            failed: row.get(1)?,
            why: row.get(2)?,
            due: row.get::<_, Us>(3)?.0,
        })
    })
    .optional()
}

pub(super) fn lines(
    c: &Connection,
    item_type: &ItemType,
    after: &Bookmark,
    limit: u32,
) -> rusqlite::Result<Page<BulkLine, Bookmark>> {
    let asked = rows_needed(limit, false);
    let rows = c
        .prepare_cached(
            "SELECT bulk_id, state, lines, accepted, duplicate, rejected, opened_at, ended_at
             FROM bulk INDEXED BY bulk_age
             WHERE item_type = ?1 AND state <> 'DISCARDED' AND (opened_at, bulk_id) < (?2, ?3)
             ORDER BY opened_at DESC, bulk_id DESC LIMIT ?4",
        )?
        .query_map(
            params![item_type.as_str(), after.rank, after.id, asked],
            line_from,
        )?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Page::of(rows, asked, limit, |_| true, BulkLine::bookmark))
}

fn line_from(row: &Row<'_>) -> rusqlite::Result<BulkLine> {
    Ok(BulkLine {
        bulk: BulkId::new(row.get::<_, String>(0)?),
        state: word(row, 1, BulkState::parse)?,
        lines: count(row, 2)?,
        accepted: count(row, 3)?,
        duplicate: count(row, 4)?,
        rejected: count(row, 5)?,
        opened_at: row.get::<_, Us>(6)?.0,
        ended_at: row.get::<_, Option<Us>>(7)?.map(|us| us.0),
    })
}

pub(super) fn errors(
    c: &Connection,
    bulk: &BulkId,
    after_line: u64,
    limit: u32,
) -> rusqlite::Result<Vec<LineError>> {
    let after = i64::try_from(after_line).unwrap_or(i64::MAX);
    c.prepare_cached(
        "SELECT line_no, item_id, details FROM bulk_error
         WHERE bulk_id = ?1 AND line_no > ?2 ORDER BY line_no LIMIT ?3",
    )?
    .query_map(params![bulk.as_str(), after, limit], |row| {
        let details: String = row.get(2)?;
        let details = serde_json::from_str(&details)
            .map_err(|e| rusqlite::Error::FromSqlConversionFailure(2, Type::Text, e.into()))?;
        Ok(LineError {
            line: count(row, 0)?,
            id: row.get(1)?,
            details,
        })
    })?
    .collect()
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}

fn view_from(row: &Row<'_>, bulk: &BulkId) -> rusqlite::Result<BulkView> {
    let maybe_time = |column: usize| row.get::<_, Option<Us>>(column).map(|us| us.map(|us| us.0));
    Ok(BulkView {
        bulk: bulk.clone(),
        item_type: ItemType::new(row.get::<_, String>(0)?),
        state: word(row, 1, BulkState::parse)?,
        lines: count(row, 2)?,
        accepted: count(row, 3)?,
        duplicate: count(row, 4)?,
        rejected: count(row, 5)?,
        opened_at: row.get::<_, Us>(6)?.0,
        started_at: maybe_time(7)?,
        ended_at: maybe_time(8)?,
        sums: vec![],
        failing: None,
    })
}

fn sum_from(row: &Row<'_>) -> rusqlite::Result<BulkSum> {
    let maybe_time = |column: usize| row.get::<_, Option<Us>>(column).map(|us| us.map(|us| us.0));
    Ok(BulkSum {
        lane: LaneName::new(row.get::<_, String>(0)?),
        currency: row.get(1)?,
        accepted: count(row, 2)?,
        amount_minor: row.get(3)?,
        met: count(row, 4)?,
        missed: count(row, 5)?,
        first_slot: row.get::<_, Us>(6)?.0,
        last_slot: row.get::<_, Us>(7)?.0,
        deadlines: maybe_time(8)?.zip(maybe_time(9)?),
    })
}
