//! Lists by time and by what an index finds. On PostgreSQL the time of a list is the one of the item's body: that row
//! is written once, so no move pays for its indexes.

mod counts;

use async_trait::async_trait;
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{
    BesideWanted, Counted, Found, FoundBy, ListKey, Lists, RecordLine, RequestState, RequestView,
    StoreError, StoreResult, USUAL_ENDS,
};
use tollgate_core::{SignedDuration, Timestamp};

use super::requests;
use crate::sql::{Params, Row, Sql, params};
use crate::store_on::{Database, StoreOn};

/// A stretch of time is looked for with so much around it: body and item are written one after the other.
const SLACK: SignedDuration = SignedDuration::from_mins(1);

#[async_trait]
impl<D: Database> Lists for StoreOn<D> {
    async fn items_beside(&self, wanted: BesideWanted) -> StoreResult<Vec<ListKey>> {
        const OLDER: Sql = Sql::each(
            "SELECT item_id, created_at FROM item_queue INDEXED BY item_queue_created
             WHERE item_type = $1 AND (created_at, item_id) < ($2, $3) AND created_at >= $4
             ORDER BY created_at DESC, item_id DESC LIMIT $5",
            "SELECT item_id, created_at FROM item_body
             WHERE item_type = $1 AND (created_at, item_id) < ($2, $3) AND created_at >= $4
             ORDER BY created_at DESC, item_id DESC LIMIT $5",
        );
        const NEWER: Sql = Sql::each(
            "SELECT item_id, created_at FROM item_queue INDEXED BY item_queue_created
             WHERE item_type = $1 AND (created_at, item_id) > ($2, $3) AND created_at < $4
             ORDER BY created_at, item_id LIMIT $5",
            "SELECT item_id, created_at FROM item_body
             WHERE item_type = $1 AND (created_at, item_id) > ($2, $3) AND created_at < $4
             ORDER BY created_at, item_id LIMIT $5",
        );
        let sql = if wanted.newer { NEWER } else { OLDER };
        let wanted = beside(&wanted);
        self.read(
            move |tx| async move { tx.rows(sql, wanted).await.iter().map(key_from).collect() },
        )
        .await
    }

    async fn requests_beside(
        &self,
        wanted: BesideWanted,
        state: Option<RequestState>,
    ) -> StoreResult<Vec<RequestView>> {
        self.read(move |tx| async move {
            requests::beside(&tx, wanted.newer, beside(&wanted), state).await
        })
        .await
    }

    async fn items_found(
        &self,
        item_type: &ItemType,
        by: FoundBy,
        at_most: u32,
    ) -> StoreResult<Found> {
        let most = at_most.saturating_add(1);
        let (sql, wanted) = match by {
            FoundBy::Status(status) if USUAL_ENDS.contains(&status.as_str()) => {
                (OF_USUAL_END, params![item_type, most, status])
            }
            FoundBy::Status(status) => (OF_STATUS, params![item_type, most, status]),
            FoundBy::Held => (HELD, params![item_type, most]),
            FoundBy::Account(account) => (OF_ACCOUNT, params![item_type, most, account]),
            FoundBy::Reference(text) => (OF_REFERENCE, params![item_type, most, text]),
            FoundBy::Owner(owner) => (OF_OWNER, params![item_type, most, owner]),
        };
        self.read(move |tx| async move { found_in(&tx.rows(sql, wanted).await, at_most) })
            .await
    }

    async fn counted(&self, list: Counted, at_most: u32) -> StoreResult<u64> {
        self.read(move |tx| async move { counts::counted(&tx, &list, at_most).await })
            .await
    }

    async fn record_lines(&self, items: &[Item]) -> StoreResult<Vec<RecordLine>> {
        let Some(first) = items.first() else {
            return Ok(vec![]);
        };
        let ids: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
        let ids = serde_json::to_string(&ids).map_err(|e| StoreError::Bug(e.to_string()))?;
        let wanted = params![&first.item_type, ids];
        self.read(
            move |tx| async move { tx.rows(LINES, wanted).await.iter().map(line_from).collect() },
        )
        .await
    }
}

/// Rows that were looked at; unless all were, those that are wanted tell little.
fn found_in(rows: &[Row], at_most: u32) -> StoreResult<Found> {
    let mut keys = Vec::with_capacity(rows.len());
    for row in rows {
        if row.get("is_wanted")? {
            keys.push(key_from(row)?);
        }
    }
    let most = at_most as usize;
    Ok(if keys.len() > most {
        Found::TooMany
    } else if rows.len() > most {
        Found::Unlisted
    } else {
        Found::All(keys)
    })
}

/// In the order of the index: for a status that most items have, PostgreSQL would rather read the table.
const OF_STATUS: Sql = Sql::each(
    "SELECT item_id, created_at, true AS is_wanted FROM item_queue INDEXED BY item_queue_status
     WHERE item_type = $1 AND status = $3 LIMIT $2",
    "SELECT b.item_id, b.created_at, true AS is_wanted
     FROM (SELECT item_id FROM item_queue
           WHERE item_type = $1 AND status = $3 AND status NOT IN ('PROCESSING', 'DELIVERED')
           ORDER BY item_id LIMIT $2) q
     CROSS JOIN LATERAL (SELECT item_id, created_at FROM item_body
          WHERE item_type = $1 AND item_id = q.item_id LIMIT 1) b",
);

/// On PostgreSQL no index lists them (docs/decisions/0067): the newest items are looked at.
const OF_USUAL_END: Sql = Sql::each(
    "SELECT item_id, created_at, true AS is_wanted FROM item_queue INDEXED BY item_queue_status
     WHERE item_type = $1 AND status = $3 LIMIT $2",
    "SELECT b.item_id, b.created_at, q.status IS NOT NULL AS is_wanted
     FROM (SELECT item_id, created_at FROM item_body WHERE item_type = $1
           ORDER BY created_at DESC, item_id DESC LIMIT $2) b
     LEFT JOIN LATERAL (SELECT status FROM item_queue
          WHERE item_type = $1 AND item_id = b.item_id AND status = $3 LIMIT 1) q ON true",
);

const HELD: Sql = Sql::each(
    "SELECT item_id, created_at, true AS is_wanted FROM item_queue INDEXED BY item_queue_held_due
     WHERE item_type = $1 AND queue_status = 'HELD' LIMIT $2",
    "SELECT b.item_id, b.created_at, true AS is_wanted
     FROM (SELECT item_id FROM item_queue
           WHERE item_type = $1 AND queue_part = 'H' LIMIT $2) q
     JOIN item_body b ON b.item_type = $1 AND b.item_id = q.item_id",
);

/// Each side is bounded for itself: an account may pay everything.
const OF_ACCOUNT: Sql = Sql::each(
    "SELECT q.item_id, q.created_at, true AS is_wanted
     FROM (SELECT item_id AS found FROM (SELECT item_id FROM item_body INDEXED BY item_body_debtor
               WHERE item_type = 'PAYMENT' AND json_valid(body)
                 AND json_extract(body, '$.debtor.account') = $3 LIMIT $2)
           UNION
           SELECT item_id FROM (SELECT item_id FROM item_body INDEXED BY item_body_creditor
               WHERE item_type = 'PAYMENT' AND json_valid(body)
                 AND json_extract(body, '$.creditor.account') = $3 LIMIT $2))
     CROSS JOIN item_queue q ON q.item_type = $1 AND q.item_id = found",
    "SELECT item_id, created_at, true AS is_wanted
     FROM ((SELECT item_id, created_at FROM item_body
            WHERE item_type = $1 AND item_type = 'PAYMENT'
              AND tg_json(body) #>> '{debtor,account}' = $3 LIMIT $2)
           UNION
           (SELECT item_id, created_at FROM item_body
            WHERE item_type = $1 AND item_type = 'PAYMENT'
              AND tg_json(body) #>> '{creditor,account}' = $3 LIMIT $2)) b",
);

const OF_REFERENCE: Sql = Sql::each(
    "SELECT q.item_id, q.created_at, true AS is_wanted
     FROM (SELECT item_id AS found FROM item_body INDEXED BY item_body_reference
           WHERE item_type = 'PAYMENT' AND json_valid(body)
             AND json_extract(body, '$.reference') IS NOT NULL
             AND json_extract(body, '$.reference') = $3 LIMIT $2)
     CROSS JOIN item_queue q ON q.item_type = $1 AND q.item_id = found",
    "SELECT item_id, created_at, true AS is_wanted FROM item_body
     WHERE item_type = $1 AND item_type = 'PAYMENT' AND tg_json(body) ->> 'reference' = $3 LIMIT $2",
);

const OF_OWNER: Sql = Sql::each(
    "SELECT item_id, created_at, true AS is_wanted FROM item_queue INDEXED BY item_queue_owner_page
     WHERE by_owner = 1 AND item_type = $1 AND owner = $3 LIMIT $2",
    "SELECT b.item_id, b.created_at, true AS is_wanted
     FROM (SELECT item_id FROM item_queue WHERE by_owner AND item_type = $1 AND owner = $3
           ORDER BY item_id LIMIT $2) q
     JOIN item_body b ON b.item_type = $1 AND b.item_id = q.item_id",
);

const LINES: Sql = Sql::each(
    "SELECT q.item_id, q.status, q.amount_minor, q.currency, q.lane, q.queue_status, q.run,
            q.scheduled_time, q.deadline, q.created_at, q.scheduled_exec_time,
            q.finished_at IS NOT NULL AS has_ended,
            (SELECT max(a.turn_at) FROM attempt a
             WHERE a.item_type = q.item_type AND a.item_id = q.item_id) AS last_turn,
            EXISTS (SELECT 1 FROM attempt a WHERE a.item_type = q.item_type
                    AND a.item_id = q.item_id AND a.run = q.run) AS was_sent
     FROM json_each($2) w
     CROSS JOIN item_queue q ON q.item_type = $1 AND q.item_id = w.value",
    "SELECT q.item_id, q.status, q.amount_minor, q.currency, q.lane, q.queue_status, q.run,
            q.scheduled_time, q.deadline, q.created_at, q.scheduled_exec_time,
            q.finished_at IS NOT NULL AS has_ended,
            (SELECT max(a.turn_at) FROM attempt a
             WHERE a.item_type = q.item_type AND a.item_id = q.item_id) AS last_turn,
            EXISTS (SELECT 1 FROM attempt a WHERE a.item_type = q.item_type
                    AND a.item_id = q.item_id AND a.run = q.run) AS was_sent
     FROM json_array_elements_text(CAST(CAST($2 AS text) AS json)) AS w (item_id)
     JOIN item_queue q ON q.item_type = $1 AND q.item_id = w.item_id",
);

/// The type, the place, the end of the stretch of time that lies ahead, and how many.
fn beside(wanted: &BesideWanted) -> Params {
    let (from, to) = (
        wanted.from.map_or(i64::MIN, |at| shifted(at, -SLACK)),
        wanted.to.map_or(i64::MAX, |at| shifted(at, SLACK)),
    );
    let (start, end) = if wanted.newer { (from, to) } else { (to, from) };
    let place = wanted.place.as_ref().map(|it| it.at.as_microsecond());
    let (at, id) = match (place, wanted.newer) {
        (None, _) => (start, ""),
        (Some(at), true) if at < start => (start, ""),
        (Some(at), false) if at > start => (start, ""),
        (Some(at), _) => (at, wanted.place.as_ref().map_or("", |it| it.id.as_str())),
    };
    params![&wanted.item_type, at, id, end, wanted.limit]
}

fn shifted(at: Timestamp, by: SignedDuration) -> i64 {
    at.checked_add(by).unwrap_or(at).as_microsecond()
}

fn key_from(row: &Row) -> StoreResult<ListKey> {
    Ok(ListKey {
        at: row.get("created_at")?,
        id: row.get::<ItemId>("item_id")?,
    })
}

fn line_from(row: &Row) -> StoreResult<RecordLine> {
    Ok(RecordLine {
        id: row.get("item_id")?,
        status: row.get("status")?,
        money: row.money()?,
        lane: row.get("lane")?,
        queue_status: row.word("queue_status", QueueStatus::parse)?,
        run: row.get("run")?,
        slot: row.get("scheduled_time")?,
        due: row.get("scheduled_exec_time")?,
        deadline: row.get("deadline")?,
        has_ended: row.get("has_ended")?,
        last_turn: row.get("last_turn")?,
        was_sent: row.get("was_sent")?,
        created_at: row.get("created_at")?,
    })
}
