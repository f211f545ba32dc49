//! Records: an item as people ask about it, and the compare-and-set of its status.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tollgate_core::id::{BatchId, FlowId, Item, ItemId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::money::{Currency, Money};
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{
    AttemptView, ItemView, OwnedWanted, Page, RecordLine, Records, RecordsWanted, StatusMove,
    StoreResult, rows_needed, split_rules,
};

use super::SqliteStore;
use crate::sqlite::connection::value::{Us, word};

#[async_trait]
impl Records for SqliteStore {
    async fn item(&self, item: &Item) -> StoreResult<Option<ItemView>> {
        let asked = item;
        let item = item.clone();
        let read = move |c: &Connection| {
            let view = c
                .prepare_cached(
                    "SELECT q.status, q.amount_minor, q.currency, coalesce(b.content_hash, ''),
                            b.body, q.lane, q.queue_status, q.run, q.scheduled_time, q.requested_time,
                            q.deadline, q.scheduled_exec_time, coalesce(b.init_workflow_id, ''),
                            q.exec_workflow_id, q.retry_count, q.last_error, q.created_at,
                            q.claimed_at, q.dispatched_at, q.finished_at, q.hold_after IS NOT NULL,
                            q.dispatch_batch_id, q.passed_rules
                     FROM item_queue q
                     LEFT JOIN item_body b ON b.item_type = q.item_type AND b.item_id = q.item_id
                     WHERE q.item_type = ?1 AND q.item_id = ?2",
                )?
                .query_row(params![item.item_type.as_str(), item.id.as_str()], |row| {
                    view_from(row, &item)
                })
                .optional()?;
            let Some(mut view) = view else {
                return Ok(None);
            };
            view.attempts = attempts(c, &item)?;
            Ok(Some(view))
        };
        match self.readers.read(read).await? {
            Some(view) => Ok(Some(view)),
            None => self.remembered(asked).await,
        }
    }

    async fn bodies(&self, items: &[Item]) -> StoreResult<Vec<Option<String>>> {
        let items = items.to_vec();
        let read = move |c: &Connection| {
            let mut body = c.prepare_cached(
                "SELECT body FROM item_body WHERE item_type = ?1 AND item_id = ?2",
            )?;
            let mut body = |item: &Item| {
                let key = params![item.item_type.as_str(), item.id.as_str()];
                body.query_row(key, |row| row.get(0)).optional()
            };
            items.iter().map(&mut body).collect()
        };
        self.readers.read(read).await
    }

    async fn records(&self, wanted: RecordsWanted) -> StoreResult<Page<RecordLine, ItemId>> {
        let read = move |c: &Connection| {
            let asked = rows_needed(wanted.limit, wanted.is_filtered());
            Ok(wanted.page(lines(c, &wanted, asked)?, asked))
        };
        self.readers.read(read).await
    }

    async fn owned(&self, wanted: OwnedWanted) -> StoreResult<Vec<ItemId>> {
        let read = move |c: &Connection| {
            let statuses = texts(&wanted.statuses)?;
            c.prepare_cached(
                "SELECT item_id FROM item_queue INDEXED BY item_queue_owner
                 WHERE by_owner = 1 AND item_type = ?1 AND owner = ?2
                   AND status IN (SELECT value FROM json_each(?3)) LIMIT ?4",
            )?
            .query_map(
                params![
                    wanted.item_type.as_str(),
                    wanted.owner,
                    statuses,
                    wanted.limit
                ],
                |row| row.get::<_, String>(0).map(ItemId::new),
            )?
            .collect()
        };
        self.readers.read(read).await
    }
}

fn lines(c: &Connection, wanted: &RecordsWanted, asked: u32) -> rusqlite::Result<Vec<RecordLine>> {
    const ALL: &str = "SELECT item_id, status, amount_minor, currency, lane, queue_status,
             run, scheduled_time, deadline, created_at,
             q.scheduled_exec_time, q.finished_at IS NOT NULL,
             (SELECT max(a.turn_at) FROM attempt a
              WHERE a.item_type = q.item_type AND a.item_id = q.item_id),
             EXISTS (SELECT 1 FROM attempt a WHERE a.item_type = q.item_type
                     AND a.item_id = q.item_id AND a.run = q.run)
         FROM item_queue q WHERE item_type = ?1 AND item_id > ?2 ORDER BY item_id LIMIT ?3";
    const OF_STATUS: &str = "SELECT item_id, status, amount_minor, currency, lane, queue_status,
             run, scheduled_time, deadline, created_at,
             q.scheduled_exec_time, q.finished_at IS NOT NULL,
             (SELECT max(a.turn_at) FROM attempt a
              WHERE a.item_type = q.item_type AND a.item_id = q.item_id),
             EXISTS (SELECT 1 FROM attempt a WHERE a.item_type = q.item_type
                     AND a.item_id = q.item_id AND a.run = q.run)
         FROM item_queue q INDEXED BY item_queue_status
         WHERE item_type = ?1 AND item_id > ?2 AND status = ?4 ORDER BY item_id LIMIT ?3";
    const OF_BULK: &str = "SELECT q.item_id, q.status, q.amount_minor, q.currency, q.lane,
             q.queue_status, q.run, q.scheduled_time, q.deadline, q.created_at,
             q.scheduled_exec_time, q.finished_at IS NOT NULL,
             (SELECT max(a.turn_at) FROM attempt a
              WHERE a.item_type = q.item_type AND a.item_id = q.item_id),
             EXISTS (SELECT 1 FROM attempt a WHERE a.item_type = q.item_type
                     AND a.item_id = q.item_id AND a.run = q.run)
         FROM item_body b INDEXED BY item_body_bulk
         JOIN item_queue q ON q.item_type = b.item_type AND q.item_id = b.item_id
         WHERE b.item_type = ?1 AND b.item_id > ?2 AND b.bulk_id = ?4
         ORDER BY b.item_id LIMIT ?3";
    const OF_OWNER: &str = "SELECT item_id, status, amount_minor, currency, lane, queue_status,
             run, scheduled_time, deadline, created_at,
             q.scheduled_exec_time, q.finished_at IS NOT NULL,
             (SELECT max(a.turn_at) FROM attempt a
              WHERE a.item_type = q.item_type AND a.item_id = q.item_id),
             EXISTS (SELECT 1 FROM attempt a WHERE a.item_type = q.item_type
                     AND a.item_id = q.item_id AND a.run = q.run)
         FROM item_queue q INDEXED BY item_queue_owner_page
         WHERE by_owner = 1 AND item_type = ?1 AND item_id > ?2 AND owner = ?4
         ORDER BY item_id LIMIT ?3";
    let after = wanted.after.as_ref().map_or("", ItemId::as_str);
    let kind = wanted.item_type.as_str();
    if let (None, Some(owner)) = (&wanted.bulk, &wanted.owner) {
        return c
            .prepare_cached(OF_OWNER)?
            .query_map(params![kind, after, asked, owner], line_from)?
            .collect();
    }
    match (&wanted.bulk, &wanted.status) {
        (Some(bulk), _) => c
            .prepare_cached(OF_BULK)?
            .query_map(params![kind, after, asked, bulk.as_str()], line_from)?
            .collect(),
        (None, None) => c
            .prepare_cached(ALL)?
            .query_map(params![kind, after, asked], line_from)?
            .collect(),
        (None, Some(status)) => c
            .prepare_cached(OF_STATUS)?
            .query_map(params![kind, after, asked, status], line_from)?
            .collect(),
    }
}

fn line_from(row: &Row<'_>) -> rusqlite::Result<RecordLine> {
    Ok(RecordLine {
        id: ItemId::new(row.get::<_, String>(0)?),
        status: row.get(1)?,
        money: money_from(row, 2)?,
        lane: LaneName::new(row.get::<_, String>(4)?),
        queue_status: word(row, 5, QueueStatus::parse)?,
        run: row.get(6)?,
        slot: row.get::<_, Us>(7)?.0,
        deadline: row.get::<_, Option<Us>>(8)?.map(|us| us.0),
        created_at: row.get::<_, Us>(9)?.0,
        due: row.get::<_, Us>(10)?.0,
        has_ended: row.get(11)?,
        last_turn: row.get::<_, Option<Us>>(12)?.map(|us| us.0),
        was_sent: row.get(13)?,
    })
}

/// An amount, from its column and the currency's in the next.
pub(super) fn money_from(row: &Row<'_>, column: usize) -> rusqlite::Result<Money> {
    let currency = word(row, column + 1, Currency::from_code)?;
    let minor = row.get(column)?;
    Ok(Money { minor, currency })
}

/// As a parameter.
fn texts(list: &[String]) -> rusqlite::Result<String> {
    serde_json::to_string(list).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

/// Moves an item's status if it is one of those it may move from; otherwise it stays.
pub(super) fn move_status(
    c: &Connection,
    item: &Item,
    status: &StatusMove,
    now: Us,
) -> rusqlite::Result<usize> {
    let from = texts(&status.from)?;
    c.prepare_cached(
        "UPDATE item_queue SET status = ?3, updated_at = ?5
         WHERE item_type = ?1 AND item_id = ?2
           AND status IN (SELECT value FROM json_each(?4))",
    )?
    .execute(params![
        item.item_type.as_str(),
        item.id.as_str(),
        status.to,
        from,
        now
    ])
}

fn view_from(row: &Row<'_>, item: &Item) -> rusqlite::Result<ItemView> {
    let time = |column: usize| row.get::<_, Us>(column).map(|us| us.0);
    let maybe_time = |column: usize| row.get::<_, Option<Us>>(column).map(|us| us.map(|us| us.0));
    Ok(ItemView {
        item: item.clone(),
        status: row.get(0)?,
        money: money_from(row, 1)?,
        content_hash: row.get(3)?,
        body: row.get(4)?,
        lane: LaneName::new(row.get::<_, String>(5)?),
        queue_status: word(row, 6, QueueStatus::parse)?,
        run: row.get(7)?,
        slot: time(8)?,
        requested: time(9)?,
        deadline: maybe_time(10)?,
        due: time(11)?,
        init_flow: FlowId::new(row.get::<_, String>(12)?),
        exec_flow: row.get::<_, Option<String>>(13)?.map(FlowId::new),
        retry_count: row.get(14)?,
        last_error: row.get(15)?,
        created_at: time(16)?,
        claimed_at: maybe_time(17)?,
        dispatched_at: maybe_time(18)?,
        finished_at: maybe_time(19)?,
        hold_if_late: row.get(20)?,
        dispatch_batch: row.get::<_, Option<String>>(21)?.map(BatchId::new),
        passed_rules: split_rules(row.get::<_, Option<String>>(22)?.as_deref()),
        attempts: vec![],
        archived: None,
    })
}

fn attempts(c: &Connection, item: &Item) -> rusqlite::Result<Vec<AttemptView>> {
    c.prepare_cached(
        "SELECT kind, state, run, turn_at, settled_at, detail, idempotency_key, reopened
         FROM attempt
         WHERE item_type = ?1 AND item_id = ?2 ORDER BY attempt_id",
    )?
    .query_map(params![item.item_type.as_str(), item.id.as_str()], |row| {
        Ok(AttemptView {
            kind: word(row, 0, AttemptKind::parse)?,
            state: word(row, 1, AttemptState::parse)?,
            run: row.get(2)?,
            turn_at: row.get::<_, Us>(3)?.0,
            settled_at: row.get::<_, Option<Us>>(4)?.map(|us| us.0),
            detail: row.get(5)?,
            key: row.get(6)?,
            reopened: row.get(7)?,
        })
    })?
    .collect()
}
