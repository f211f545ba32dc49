//! Bulks as people and the feeder ask about them.

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use tollgate_core::id::{BulkId, ItemType, LaneName};
use tollgate_core::ports::{
    Bookmark, BulkLine, BulkState, BulkSum, BulkView, ChunkId, ChunkToDo, FailingChunk, LineError,
    Page, StoreError, StoreResult, rows_needed,
};

use super::run::{Params, all, optional};
use super::value::{Count, Us, word};

pub(super) async fn to_do(
    c: &impl GenericClient,
    item_type: &ItemType,
    limit: u32,
) -> StoreResult<Vec<ChunkToDo>> {
    const TO_DO: &str = "SELECT k.bulk_id, k.chunk_no, k.tries FROM bulk b
         CROSS JOIN LATERAL (SELECT bulk_id, chunk_no, tries FROM bulk_chunk
             WHERE bulk_id = b.bulk_id AND due_at <= (SELECT tg_now())
             ORDER BY chunk_no LIMIT $2) k
         WHERE b.item_type = $1 AND b.state = 'RUNNING'
         ORDER BY b.bulk_id, k.chunk_no LIMIT $2";
    let rows = all(c, TO_DO, &[&item_type.as_str(), &i64::from(limit)]).await?;
    let chunk = |row: &Row| ChunkToDo {
        chunk: ChunkId {
            bulk: BulkId::new(row.get::<_, String>(0)),
            number: row.get::<_, Count>(1).0,
        },
        failed: row.get::<_, Count>(2).0,
    };
    Ok(rows.iter().map(chunk).collect())
}

/// One statement is one consistent read: a row per sum, or one row without.
pub(super) async fn view(c: &impl GenericClient, bulk: &BulkId) -> StoreResult<Option<BulkView>> {
    const VIEW: &str = "SELECT b.item_type, b.state, b.lines, b.accepted, b.duplicate, b.rejected,
                b.opened_at, b.started_at, b.ended_at,
                s.lane, s.currency, s.accepted, s.amount_minor, s.met, s.missed, s.first_slot,
                s.last_slot, s.first_deadline, s.last_deadline
         FROM bulk b LEFT JOIN bulk_sum s ON s.bulk_id = b.bulk_id
         WHERE b.bulk_id = $1 AND b.state <> 'DISCARDED' ORDER BY s.lane, s.currency";
    let rows = all(c, VIEW, &[&bulk.as_str()]).await?;
    let Some(first) = rows.first() else {
        return Ok(None);
    };
    let mut view = view_from(first, bulk)?;
    view.sums = rows.iter().filter_map(sum_from).collect();
    view.failing = failing(c, bulk).await?;
    Ok(Some(view))
}

async fn failing(c: &impl GenericClient, bulk: &BulkId) -> StoreResult<Option<FailingChunk>> {
    const FAILING: &str = "SELECT chunk_no, tries, coalesce(last_error, ''), due_at
         FROM bulk_chunk WHERE bulk_id = $1 AND tries > 0 ORDER BY tries DESC, chunk_no LIMIT 1";
    let row = optional(c, FAILING, &[&bulk.as_str()]).await?;
    Ok(row.map(|row| FailingChunk {
        number: row.get::<_, Count>(0).0,
        failed: row.get::<_, Count>(1).0,
        why: row.get(2),
        due: row.get::<_, Us>(3).0,
    }))
}

pub(super) async fn lines(
    c: &impl GenericClient,
    item_type: &ItemType,
    after: &Bookmark,
    limit: u32,
) -> StoreResult<Page<BulkLine, Bookmark>> {
    const LINES: &str = "SELECT bulk_id, state, lines, accepted, duplicate, rejected, opened_at,
                ended_at
         FROM bulk
         WHERE item_type = $1 AND state <> 'DISCARDED' AND (opened_at, bulk_id) < ($2, $3)
         ORDER BY opened_at DESC, bulk_id DESC LIMIT $4";
    let asked = rows_needed(limit, false);
    let params: Params<'_> = &[
        &item_type.as_str(),
        &after.rank,
        &after.id,
        &i64::from(asked),
    ];
    let rows = all(c, LINES, params).await?;
    let rows = rows.iter().map(line_from).collect::<StoreResult<_>>()?;
    Ok(Page::of(rows, asked, limit, |_| true, BulkLine::bookmark))
}

fn line_from(row: &Row) -> StoreResult<BulkLine> {
    let bulk = BulkId::new(row.get::<_, String>(0));
    Ok(BulkLine {
        state: word(row, 1, BulkState::parse)?,
        bulk,
        lines: count(row, 2),
        accepted: count(row, 3),
        duplicate: count(row, 4),
        rejected: count(row, 5),
        opened_at: row.get::<_, Us>(6).0,
        ended_at: row.get::<_, Option<Us>>(7).map(|us| us.0),
    })
}

pub(super) async fn errors(
    c: &impl GenericClient,
    bulk: &BulkId,
    after_line: u64,
    limit: u32,
) -> StoreResult<Vec<LineError>> {
    const ERRORS: &str = "SELECT line_no, item_id, details FROM bulk_error
         WHERE bulk_id = $1 AND line_no > $2 ORDER BY line_no LIMIT $3";
    let after = i64::try_from(after_line).unwrap_or(i64::MAX);
    let params: Params<'_> = &[&bulk.as_str(), &after, &i64::from(limit)];
    let rows = all(c, ERRORS, params).await?;
    rows.iter()
        .map(|row| {
            let details = serde_json::from_str(row.get(2));
            Ok(LineError {
                line: count(row, 0),
                id: row.get(1),
                details: details.map_err(|e| StoreError::Bug(e.to_string()))?,
            })
        })
        .collect()
}

fn count(row: &Row, column: usize) -> u64 {
    row.get::<_, i64>(column).unsigned_abs()
}

fn view_from(row: &Row, bulk: &BulkId) -> StoreResult<BulkView> {
    let maybe_time = |column: usize| row.get::<_, Option<Us>>(column).map(|us| us.0);
    Ok(BulkView {
        bulk: bulk.clone(),
        item_type: ItemType::new(row.get::<_, String>(0)),
        state: word(row, 1, BulkState::parse)?,
        lines: count(row, 2),
        accepted: count(row, 3),
        duplicate: count(row, 4),
        rejected: count(row, 5),
        opened_at: row.get::<_, Us>(6).0,
        started_at: maybe_time(7),
        ended_at: maybe_time(8),
        sums: vec![],
        failing: None,
    })
}

fn sum_from(row: &Row) -> Option<BulkSum> {
    let maybe_time = |column: usize| row.get::<_, Option<Us>>(column).map(|us| us.0);
    Some(BulkSum {
        lane: LaneName::new(row.get::<_, Option<String>>(9)?),
        currency: row.get(10),
        accepted: count(row, 11),
        amount_minor: row.get(12),
        met: count(row, 13),
        missed: count(row, 14),
        first_slot: row.get::<_, Us>(15).0,
        last_slot: row.get::<_, Us>(16).0,
        deadlines: maybe_time(17).zip(maybe_time(18)),
    })
}
