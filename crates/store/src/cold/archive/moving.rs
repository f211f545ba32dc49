//! The move of ended items out of the hot tables: which may go, and the one transaction that takes them out.
//!
//! PostgreSQL writes the line and deletes the rows in one transaction. On SQLite lines lie in another file: they are
//! copied and committed first, then the rows are deleted if they are still what was copied. A crash between the two
//! leaves a copy beside the hot row; readers ask the hot tables first, and the next call copies again, or the copy is
//! removed before its day is closed (`copies.rs`).

use std::collections::BTreeSet;

use tollgate_core::archive::{ArchiveDay, ArchivedItem};
use tollgate_core::id::{ItemId, ItemType};
use tollgate_core::ports::{ListKey, MoveWanted, Moved, StoreResult};

use super::days::opened;
use super::known::{day_from, remember};
use super::lines::{ids_json, lines, packed};
use super::sums::Accounting;
use crate::edges::edge;
use crate::sql::{Row, Sql, Tx, params};

/// The next items by their acceptance, and whether each may go. The oldest in the hot tables are the first that may, so
/// no index knows when items ended; what stays there longer is passed over.
const NEXT: Sql = Sql::each(
    "SELECT q.item_id, q.created_at,
            q.finished_at IS NOT NULL AND q.finished_at < $4
            AND q.queue_status IN ('DISPATCHED', 'CANCELLED') AS ended
     FROM item_queue q INDEXED BY item_queue_created
     WHERE q.item_type = $1 AND (q.created_at, q.item_id) > ($2, $3) AND q.created_at < $4
     ORDER BY q.created_at, q.item_id LIMIT $5",
    "SELECT b.item_id, b.created_at, coalesce(q.ended, false) AS ended
     FROM (SELECT item_id, created_at FROM item_body
           WHERE item_type = $1 AND (created_at, item_id) > ($2, $3) AND created_at < $4
           ORDER BY created_at, item_id LIMIT $5) b
     LEFT JOIN LATERAL (SELECT finished_at IS NOT NULL AND finished_at < $4
                AND queue_status IN ('DISPATCHED', 'CANCELLED') AS ended FROM item_queue
           WHERE item_type = $1 AND item_id = b.item_id LIMIT 1) q ON true
     ORDER BY b.created_at, b.item_id",
);

/// Which of them really may go, held until the transaction ends; what others work on is passed over.
const MAY_GO: Sql = Sql::each(
    "SELECT q.item_id FROM json_each($2) w
     CROSS JOIN item_queue q ON q.item_type = $1 AND q.item_id = w.value
     WHERE q.finished_at IS NOT NULL AND q.finished_at < $3
       AND q.queue_status IN ('DISPATCHED', 'CANCELLED') AND q.status <> 'IN_DOUBT'
       AND NOT EXISTS (SELECT 1 FROM attempt a
            WHERE a.item_type = q.item_type AND a.item_id = q.item_id AND a.state = 'OPEN')
       AND NOT EXISTS (SELECT 1 FROM flow f
            WHERE f.flow_id = q.exec_workflow_id AND f.state IN ('PENDING', 'LIVE'))
       AND NOT EXISTS (SELECT 1 FROM lane_cursor c
            WHERE c.lane = q.lane AND c.storm_id IS NOT NULL)
       AND NOT EXISTS (SELECT 1 FROM archived_day d WHERE d.item_type = q.item_type
            AND d.day = q.finished_at / 86400000000 AND d.state = 'DROPPED')",
    "SELECT q.item_id FROM item_queue q
     WHERE q.item_type = $1
       AND q.item_id IN (SELECT json_array_elements_text(CAST(CAST($2 AS text) AS json)))
       AND q.finished_at IS NOT NULL AND q.finished_at < $3
       AND q.queue_status IN ('DISPATCHED', 'CANCELLED') AND q.status <> 'IN_DOUBT'
       AND NOT EXISTS (SELECT 1 FROM attempt a
            WHERE a.item_type = q.item_type AND a.item_id = q.item_id AND a.state = 'OPEN')
       AND NOT EXISTS (SELECT 1 FROM flow f
            WHERE f.flow_id = q.exec_workflow_id AND f.state IN ('PENDING', 'LIVE'))
       AND NOT EXISTS (SELECT 1 FROM lane_cursor c
            WHERE c.lane = q.lane AND c.storm_id IS NOT NULL)
       AND NOT EXISTS (SELECT 1 FROM archived_day d WHERE d.item_type = q.item_type
            AND d.day = q.finished_at / 86400000000 AND d.state = 'DROPPED')
       AND NOT EXISTS (SELECT 1 FROM archive_trouble t WHERE t.item_type = q.item_type
            AND t.day = q.finished_at / 86400000000 AND t.step = 'MOVE')
     FOR UPDATE OF q SKIP LOCKED",
);

/// Days of what has ended and would go, if they were not in files only.
const IN_FILES: Sql = Sql::each(
    "SELECT DISTINCT q.finished_at / 86400000000 AS day FROM json_each($2) w
     CROSS JOIN item_queue q ON q.item_type = $1 AND q.item_id = w.value
     WHERE q.finished_at IS NOT NULL AND q.status <> 'IN_DOUBT'
       AND EXISTS (SELECT 1 FROM archived_day d WHERE d.item_type = q.item_type
            AND d.day = q.finished_at / 86400000000 AND d.state = 'DROPPED')",
    "SELECT DISTINCT q.finished_at / 86400000000 AS day FROM item_queue q
     WHERE q.item_type = $1
       AND q.item_id IN (SELECT json_array_elements_text(CAST(CAST($2 AS text) AS json)))
       AND q.finished_at IS NOT NULL AND q.status <> 'IN_DOUBT'
       AND EXISTS (SELECT 1 FROM archived_day d WHERE d.item_type = q.item_type
            AND d.day = q.finished_at / 86400000000 AND d.state = 'DROPPED')",
);

/// Days on which they ended and that have no partition, where days have one: not even the day of the oldest acceptance is
/// the first, once a clock was ahead when that item was accepted and behind when it ended.
const WITHOUT_ROOM: Sql = Sql::each(
    "",
    "SELECT DISTINCT q.finished_at / 86400000000 AS day FROM item_queue q
     WHERE q.item_type = $1
       AND q.item_id IN (SELECT json_array_elements_text(CAST(CAST($2 AS text) AS json)))
       AND q.finished_at IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM archived_day d WHERE d.item_type = q.item_type
            AND d.day = q.finished_at / 86400000000 AND d.state = 'DROPPED')
       AND NOT EXISTS (SELECT 1 FROM archive_trouble t WHERE t.item_type = q.item_type
            AND t.day = q.finished_at / 86400000000 AND t.step = 'MOVE')
       AND NOT EXISTS (SELECT 1 FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = CAST('archived_item' AS regclass)
              AND c.relname = 'archived_' || lower(q.item_type) || '_' || q.finished_at / 86400000000)",
);

/// What a look at the hot tables has found.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) ids: Vec<ItemId>,
    pub(super) said: Moved,
    pub(super) without_room: Vec<ArchiveDay>,
}

pub(super) async fn next(tx: &Tx, wanted: &MoveWanted, apart: bool) -> StoreResult<Next> {
    let (at, id) = match &wanted.after {
        Some(key) => (key.at.as_microsecond(), key.id.as_str()),
        None => (i64::MIN, ""),
    };
    let (cutoff, most) = (wanted.ended_before, wanted.at_most);
    let rows = tx
        .rows(NEXT, params![&wanted.item_type, at, id, cutoff, most])
        .await;
    let mut ids = vec![];
    for row in &rows {
        if row.get("ended")? {
            ids.push(row.get("item_id")?);
        }
    }
    let full = rows.len() >= usize::try_from(most).unwrap_or(usize::MAX);
    let last = rows.last().filter(|_| full).map(key_from).transpose()?;
    let said = Moved {
        moved: 0,
        looked_at: u64::try_from(rows.len()).unwrap_or(u64::MAX),
        next: last,
        in_files: days_of(tx, IN_FILES, wanted, &ids).await?,
    };
    let without_room = if apart {
        vec![]
    } else {
        days_of(tx, WITHOUT_ROOM, wanted, &ids).await?
    };
    Ok(Next {
        ids,
        said,
        without_room,
    })
}

async fn days_of(
    tx: &Tx,
    which: Sql,
    wanted: &MoveWanted,
    ids: &[ItemId],
) -> StoreResult<Vec<ArchiveDay>> {
    if ids.is_empty() {
        return Ok(vec![]);
    }
    let asked = params![&wanted.item_type, ids_json(ids.iter())?];
    let rows = tx.rows(which, asked).await;
    rows.iter().map(|row| day_from(row, "day")).collect()
}

/// Where lines are copied first, those of what may not go would only have to be removed again.
pub(super) async fn may_go(
    tx: &Tx,
    wanted: &MoveWanted,
    ids: &[ItemId],
) -> StoreResult<Vec<ItemId>> {
    if ids.is_empty() {
        return Ok(vec![]);
    }
    let asked = params![
        &wanted.item_type,
        ids_json(ids.iter())?,
        wanted.ended_before
    ];
    let rows = tx.rows(MAY_GO, asked).await;
    rows.iter().map(|row| row.get("item_id")).collect()
}

fn key_from(row: &Row) -> StoreResult<ListKey> {
    Ok(ListKey {
        at: row.get("created_at")?,
        id: row.get("item_id")?,
    })
}

/// Takes items out of the hot tables; returns those. `copied` are the lines that lie in another file already: what
/// has changed since stays.
pub(super) async fn take_out(
    tx: &Tx,
    wanted: &MoveWanted,
    ids: &[ItemId],
    copied: Option<&[ArchivedItem]>,
) -> StoreResult<Vec<ArchivedItem>> {
    let item_type = &wanted.item_type;
    let held = may_go(tx, wanted, ids).await?;
    if held.is_empty() {
        return Ok(vec![]);
    }
    let mut items = lines(tx, item_type, &ids_json(held.iter())?).await?;
    if let Some(copied) = copied {
        items.retain(|item| copied.contains(item));
    }
    // Before the lines: a drop of the day asks in the same order.
    let days: BTreeSet<ArchiveDay> = items.iter().map(ArchivedItem::day).collect();
    opened(tx, item_type, &days).await;
    if copied.is_none() {
        write_lines(tx, &items).await?;
    }
    Accounting::of(&items).write(tx, item_type).await;
    if wanted.remembered {
        remember(tx, &items).await;
    }
    delete(tx, item_type, &items).await;
    edge("move-taken");
    Ok(items)
}

/// Copies that are there already are written over: a crash has left them.
pub(super) async fn write_lines(tx: &Tx, items: &[ArchivedItem]) -> StoreResult<()> {
    const WRITE: &str = "INSERT INTO archived_item (item_type, day, item_id, line)
         VALUES ($1, $2, $3, $4)
         ON CONFLICT (item_type, day, item_id) DO UPDATE SET line = excluded.line";
    let mut rows = vec![];
    for item in items {
        let day = item.day().number();
        rows.push(params![&item.item_type, day, &item.id, packed(item)?]);
    }
    tx.execute_each(WRITE, rows).await;
    edge("move-lines");
    Ok(())
}

/// What was read, and nothing else: an audit entry that was written meanwhile stays.
async fn delete(tx: &Tx, item_type: &ItemType, items: &[ArchivedItem]) {
    const ATTEMPT: &str = "DELETE FROM attempt WHERE attempt_id = $1";
    const AUDIT: &str = "DELETE FROM audit_log WHERE audit_id = $1";
    const BODY: &str = "DELETE FROM item_body WHERE item_type = $1 AND item_id = $2";
    const ITEM: &str = "DELETE FROM item_queue WHERE item_type = $1 AND item_id = $2";
    const FLOW: &str = "DELETE FROM flow WHERE flow_id = $1 AND state IN ('DONE', 'FAILED')";
    let flows: BTreeSet<String> = items.iter().flat_map(flows_of).collect();
    let flows = flows.into_iter().map(|flow| params![flow]).collect();
    tx.execute_each(FLOW, flows).await;
    let attempts = items.iter().flat_map(|item| &item.attempts);
    let attempts = attempts
        .map(|attempt| params![attempt.attempt_id])
        .collect();
    tx.execute_each(ATTEMPT, attempts).await;
    let audit = items.iter().flat_map(|item| &item.audit);
    let audit = audit.map(|entry| params![entry.audit_id]).collect();
    tx.execute_each(AUDIT, audit).await;
    let keys = || {
        items
            .iter()
            .map(|item| params![item_type, &item.id])
            .collect()
    };
    tx.execute_each(BODY, keys()).await;
    tx.execute_each(ITEM, keys()).await;
}

/// The flows that have taken an item in and executed it. Some are shared with others that came or went with it: what
/// has ended is not needed by them, either.
fn flows_of(item: &ArchivedItem) -> Vec<String> {
    let runs = (1..=item.run).map(|run| item.item().exec_flow(run).to_string());
    let named = [Some(item.init_flow.clone()), item.exec_flow.clone()];
    runs.chain(named.into_iter().flatten()).collect()
}
