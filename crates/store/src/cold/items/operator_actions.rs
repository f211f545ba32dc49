//! What people do to single items, and what is held for its deadline. A person's word is judged
//! under the item's lock.

use async_trait::async_trait;
use tollgate_core::Timestamp;
use tollgate_core::actor;
use tollgate_core::id::{Item, ItemType};
use tollgate_core::item::QueueStatus;
use tollgate_core::lane::LARGEST_WINDOW_SECS;
use tollgate_core::ports::{
    ActionResult, Author, ItemState, OperatorActions, StatusMove, StoreResult, TOO_LATE,
};

use super::new_slot::{self, How, NewSlot};
use crate::cold::audit::{Move, audit_move, audit_moves};
use crate::sql::{Params, Row, Sql, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;

#[async_trait]
impl<D: Database> OperatorActions for StoreOn<D> {
    async fn hold_late(&self, item_type: &ItemType, limit: u32) -> StoreResult<u64> {
        let item_type = item_type.clone();
        self.write(Urgency::Normal, move |tx| async move {
            hold_late(&tx, &item_type, limit).await
        })
        .await
    }

    async fn hold(&self, item: &Item, run: u32) -> StoreResult<bool> {
        const HOLD: &str = "UPDATE item_queue SET queue_status = 'HELD', last_error = $4,
                    run = run + 1, claimed_at = NULL, dispatched_at = NULL
             WHERE item_type = $1 AND item_id = $2 AND run = $3
               AND queue_status IN ('CLAIMED', 'DISPATCHED') AND finished_at IS NULL";
        let item = item.clone();
        self.write_as_node(Urgency::Urgent, move |tx| async move {
            let held = params![&item.item_type, &item.id, run, TOO_LATE];
            if tx.execute(HOLD, held).await == 0 {
                return Ok(false);
            }
            let sender = Author::new(actor::SENDER, TOO_LATE);
            audit_move(&tx, &item, "HELD", "DISPATCHED", "HELD", &sender).await;
            Ok(true)
        })
        .await
    }

    async fn release_held(&self, item: &Item, author: Author) -> StoreResult<ActionResult> {
        let item = item.clone();
        self.write(Urgency::Normal, move |tx| async move {
            release(&tx, &item, &author).await
        })
        .await
    }

    async fn cancel(
        &self,
        item: &Item,
        status: StatusMove,
        author: Author,
    ) -> StoreResult<ActionResult> {
        let item = item.clone();
        self.write(Urgency::Normal, move |tx| async move {
            cancel(&tx, &item, &status, &author).await
        })
        .await
    }

    async fn reschedule(
        &self,
        item: &Item,
        requested: Timestamp,
        author: Author,
    ) -> StoreResult<ActionResult> {
        let slot = NewSlot {
            item: item.clone(),
            requested,
            how: How::Reschedule,
            author,
        };
        self.place(slot).await
    }

    async fn reopen(
        &self,
        item: &Item,
        status: StatusMove,
        requested: Timestamp,
        author: Author,
    ) -> StoreResult<ActionResult> {
        let slot = NewSlot {
            item: item.clone(),
            requested,
            how: How::Reopen(status),
            author,
        };
        self.place(slot).await
    }
}

impl<D: Database> StoreOn<D> {
    async fn place(&self, slot: NewSlot) -> StoreResult<ActionResult> {
        let margin = self.0.gate_margin();
        self.write(Urgency::Normal, move |tx| async move {
            new_slot::place(&tx, &slot, margin).await
        })
        .await
    }
}

async fn hold_late(tx: &Tx, item_type: &ItemType, limit: u32) -> StoreResult<u64> {
    // Whoever has one of them under lock is dispatching it: PostgreSQL skips those.
    const HOLD: Sql = Sql::each(
        "UPDATE item_queue SET queue_status = 'HELD', last_error = $3
         WHERE item_type = $1 AND queue_status = 'READY' AND item_id IN (
             SELECT item_id FROM item_queue INDEXED BY item_queue_hold
             WHERE item_type = $1 AND queue_status = 'READY' AND hold_after IS NOT NULL
               AND hold_after < (SELECT tg_now())
               AND NOT EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = item_queue.item_type
                      AND a.item_id = item_queue.item_id
                      AND a.state IN ('OPEN', 'UNKNOWN', 'DONE'))
             ORDER BY hold_after LIMIT $2)
         RETURNING item_id",
        "WITH late AS MATERIALIZED (
             SELECT item_type, item_id FROM item_queue
             WHERE item_type = $1 AND queue_part = 'O' AND queue_status = 'READY'
               AND hold_after IS NOT NULL
               AND hold_after < (SELECT tg_now())
               AND NOT EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = item_queue.item_type
                      AND a.item_id = item_queue.item_id
                      AND a.state IN ('OPEN', 'UNKNOWN', 'DONE'))
             ORDER BY hold_after LIMIT $2 FOR UPDATE SKIP LOCKED
         )
         UPDATE item_queue q SET queue_status = 'HELD', last_error = $3 FROM late
         WHERE q.item_type = late.item_type AND q.item_id = late.item_id
         RETURNING q.item_id",
    );
    let held = tx.rows(HOLD, params![item_type, limit, TOO_LATE]).await;
    let item = |row: &Row| Ok(Item::new(item_type, &row.get("item_id")?));
    let held = held.iter().map(item).collect::<StoreResult<Vec<_>>>()?;
    let moved = Move {
        action: "HELD",
        before: "READY",
        after: "HELD",
    };
    let sweeper = Author::new(actor::SWEEPER, TOO_LATE);
    audit_moves(tx, &held, moved, &sweeper).await;
    Ok(held.len() as u64)
}

async fn release(tx: &Tx, item: &Item, author: &Author) -> StoreResult<ActionResult> {
    const RELEASE: &str = "UPDATE item_queue SET queue_status = 'READY', run = run + 1,
                scheduled_exec_time = $3,
                hold_after = CASE WHEN held_by IS NULL OR hold_after < $3 THEN NULL
                                  ELSE hold_after END,
                passed_rules = trim(coalesce(passed_rules, '') || ' ' || coalesce(held_by, '')),
                held_by = NULL, last_error = NULL
         WHERE item_type = $1 AND item_id = $2 AND queue_status = 'HELD'";
    let Some(found) = hold_row(tx, item).await? else {
        return Ok(ActionResult::NoSuchItem);
    };
    if let Some(why) = found.refuses_release() {
        return Ok(ActionResult::Refused(why));
    }
    tx.execute(RELEASE, key_and(item, tx.now().await?)).await;
    audit_move(tx, item, "RELEASED", "HELD", "READY", author).await;
    Ok(ActionResult::Yes)
}

pub(crate) async fn cancel(
    tx: &Tx,
    item: &Item,
    status: &StatusMove,
    author: &Author,
) -> StoreResult<ActionResult> {
    const CANCEL: &str = "UPDATE item_queue SET queue_status = 'CANCELLED', finished_at = $3,
                held_by = NULL
         WHERE item_type = $1 AND item_id = $2";
    let Some(found) = hold_plan_and_row(tx, item).await? else {
        return Ok(ActionResult::NoSuchItem);
    };
    if let Some(why) = found.refuses_cancel() {
        return Ok(ActionResult::Refused(why));
    }
    let now = tx.now().await?;
    tx.execute(CANCEL, key_and(item, now)).await;
    move_status(tx, item, &found.record_status, status).await;
    give_back(tx, item, now).await?;
    let before = found.queue_status.as_str();
    audit_move(tx, item, "CANCELLED", before, "CANCELLED", author).await;
    Ok(ActionResult::Yes)
}

fn key_and(item: &Item, now: Timestamp) -> Params {
    params![&item.item_type, &item.id, now]
}

/// Waits for whoever gives this item a turn, and holds its row. What is read in the next statement
/// is what they left: a statement that locks and reads at once reads as of its beginning.
pub(super) async fn hold_row(tx: &Tx, item: &Item) -> StoreResult<Option<ItemState>> {
    const LOCK: &str = "SELECT 1 FROM item_queue WHERE item_type = $1 AND item_id = $2";
    const FOUND: &str = "SELECT q.queue_status, q.lane,
                EXISTS (SELECT 1 FROM attempt a
                        WHERE a.item_type = q.item_type AND a.item_id = q.item_id
                          AND (a.state = 'DONE' OR (a.state IN ('OPEN', 'UNKNOWN')
                               AND a.attempt_id > coalesce((SELECT max(d.attempt_id) FROM attempt d
                                    WHERE d.item_type = $1 AND d.item_id = $2
                                      AND (d.state = 'DECLINED' OR d.reopened)), 0))))
                    AS may_be_done,
                q.finished_at IS NOT NULL AS has_ended, q.status, q.run,
                EXISTS (SELECT 1 FROM item_body b WHERE b.item_type = q.item_type
                          AND b.item_id = q.item_id AND b.content_hash = 'erased') AS is_erased
         FROM item_queue q
         WHERE q.item_type = $1 AND q.item_id = $2";
    let key = params![&item.item_type, &item.id];
    tx.locked_row(LOCK, key.clone()).await;
    let Some(row) = tx.row(FOUND, key).await else {
        return Ok(None);
    };
    Ok(Some(ItemState {
        queue_status: row.word("queue_status", QueueStatus::parse)?,
        lane: row.get("lane")?,
        may_be_done: row.get("may_be_done")?,
        has_ended: row.get("has_ended")?,
        record_status: row.get("status")?,
        run: row.get("run")?,
        is_erased: row.get("is_erased")?,
    }))
}

/// The plan of its lane comes before the item, as whoever gives slots takes them.
pub(crate) async fn hold_plan_and_row(tx: &Tx, item: &Item) -> StoreResult<Option<ItemState>> {
    const LANE: &str = "SELECT lane FROM item_queue WHERE item_type = $1 AND item_id = $2";
    const PLAN: &str = "SELECT lane FROM lane_plan WHERE lane = $1";
    let lane = tx.row(LANE, params![&item.item_type, &item.id]).await;
    let Some(row) = lane else {
        return Ok(None);
    };
    let lane: String = row.get("lane")?;
    tx.locked_row(PLAN, params![lane]).await;
    hold_row(tx, item).await
}

/// Moves a record's status if it is one of those it may move from; otherwise it stays. The item is
/// held, so it is still what was found.
pub(crate) async fn move_status(tx: &Tx, item: &Item, found: &str, status: &StatusMove) {
    const MOVE: &str = "UPDATE item_queue SET status = $3, updated_at = tg_now()
         WHERE item_type = $1 AND item_id = $2 AND status = $4";
    if status.from.iter().any(|from| from == found) {
        let moved = params![&item.item_type, &item.id, &status.to, found];
        tx.execute(MOVE, moved).await;
    }
}

/// The room of an item's slot comes back, if its window lies ahead; whoever pointed past that
/// window points to it.
pub(crate) async fn give_back(tx: &Tx, item: &Item, now: Timestamp) -> StoreResult<()> {
    const SLOT: &str = "SELECT lane, generation, window_start FROM item_queue
         WHERE item_type = $1 AND item_id = $2 AND scheduled_time > $3";
    const RETURN: &str = "UPDATE lane_window SET used = used - 1
         WHERE lane = $1 AND generation = $2 AND window_start = $3 AND used > 0";
    const POINT: &str = "UPDATE lane_window SET next_open = $3
         WHERE lane = $1 AND generation = $2 AND window_start < $3 AND next_open > $3
           AND window_start > $4";
    let Some(row) = tx.row(SLOT, key_and(item, now)).await else {
        return Ok(());
    };
    let lane: String = row.get("lane")?;
    let (generation, window): (i64, Timestamp) = (row.get("generation")?, row.get("window_start")?);
    tx.execute(RETURN, params![&lane, generation, window]).await;
    // Nothing is placed in a window that has ended.
    let ended = now.as_microsecond() - i64::from(LARGEST_WINDOW_SECS) * 1_000_000;
    let past = params![lane, generation, window, ended];
    tx.execute(POINT, past).await;
    Ok(())
}
