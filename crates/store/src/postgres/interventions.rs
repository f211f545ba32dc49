//! Interventions that people and deadlines make. Whoever gives room back holds the lane's plan first, then
//! the item's row.

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use rust_decimal::Decimal;
use tollgate_core::Timestamp;
use tollgate_core::id::{Item, ItemType, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::lane::LARGEST_WINDOW_SECS;
use tollgate_core::ports::{
    Author, Found, Intervened, Interventions, StatusMove, StoreResult, TOO_LATE,
};

use super::accounts::audit;
use super::counters::{Plan, lock_plans};
use super::run::{Params, execute, optional};
use super::value::{Count, Us, word};
use super::{PostgresStore, anew};
use crate::anew::Anew;
use crate::audit::Entry;
use crate::urgency::Urgency;

#[async_trait]
impl Interventions for PostgresStore {
    async fn hold_late(&self, item_type: &ItemType, limit: u32) -> StoreResult<u64> {
        const HOLD: &str = "WITH late AS MATERIALIZED (
                 SELECT item_type, item_id FROM item_queue
                 WHERE item_type = $1 AND queue_status = 'READY' AND hold_after IS NOT NULL
                   AND hold_after < (SELECT tg_now())
                   AND NOT EXISTS (SELECT 1 FROM attempt a
                        WHERE a.item_type = item_queue.item_type
                          AND a.item_id = item_queue.item_id
                          AND a.state IN ('OPEN', 'UNKNOWN', 'DONE'))
                 ORDER BY hold_after LIMIT $2 FOR UPDATE SKIP LOCKED
             ), held AS (
                 UPDATE item_queue q SET queue_status = 'HELD', last_error = $3 FROM late
                 WHERE q.item_type = late.item_type AND q.item_id = late.item_id
                 RETURNING q.item_type, q.item_id
             )
             INSERT INTO audit_log (item_type, item_id, action, status_before, status_after, actor,
                                    detail, created_at)
             SELECT item_type, item_id, 'HELD', 'READY', 'HELD', 'sweeper', $3, tg_now() FROM held";
        let (item_type, limit) = (item_type.clone(), i64::from(limit));
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    execute(c, HOLD, &[&item_type.as_str(), &limit, &TOO_LATE]).await
                })
            })
            .await
    }

    async fn hold(&self, item: &Item, run: u32) -> StoreResult<bool> {
        const HOLD: &str = "WITH held AS (
                 UPDATE item_queue SET queue_status = 'HELD', last_error = $4, run = run + 1,
                        claimed_at = NULL, dispatched_at = NULL
                 WHERE item_type = $1 AND item_id = $2 AND run = $3
                   AND queue_status IN ('CLAIMED', 'DISPATCHED') AND finished_at IS NULL
                 RETURNING item_type, item_id
             )
             INSERT INTO audit_log (item_type, item_id, action, status_before, status_after, actor,
                                    detail, created_at)
             SELECT item_type, item_id, 'HELD', 'DISPATCHED', 'HELD', 'sender', $4, tg_now()
             FROM held";
        let (item, run) = (item.clone(), i64::from(run));
        self.in_force(Urgency::Urgent, move |tx| {
            Box::pin(async move {
                let (kind, id) = (item.item_type.as_str(), item.id.as_str());
                Ok(execute(tx, HOLD, &[&kind, &id, &run, &TOO_LATE]).await? == 1)
            })
        })
        .await
    }

    async fn release_held(&self, item: &Item, author: Author) -> StoreResult<Intervened> {
        let item = item.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { release(tx, &item, &author).await })
            })
            .await
    }

    async fn cancel(
        &self,
        item: &Item,
        status: StatusMove,
        author: Author,
    ) -> StoreResult<Intervened> {
        let (item, margin) = (item.clone(), self.gate_margin);
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { cancel(tx, &item, &status, &author, margin).await })
            })
            .await
    }

    async fn reschedule(
        &self,
        item: &Item,
        requested: Timestamp,
        author: Author,
    ) -> StoreResult<Intervened> {
        let item = item.clone();
        self.place_anew(Anew {
            item,
            requested,
            reopened: None,
            author,
        })
        .await
    }

    async fn reopen(
        &self,
        item: &Item,
        status: StatusMove,
        requested: Timestamp,
        author: Author,
    ) -> StoreResult<Intervened> {
        let item = item.clone();
        self.place_anew(Anew {
            item,
            requested,
            reopened: Some(status),
            author,
        })
        .await
    }
}

impl PostgresStore {
    async fn place_anew(&self, anew: Anew) -> StoreResult<Intervened> {
        let margin = self.gate_margin;
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { anew::place(tx, &anew, margin).await })
            })
            .await
    }
}

async fn release(tx: &Transaction<'_>, item: &Item, author: &Author) -> StoreResult<Intervened> {
    const RELEASE: &str = "UPDATE item_queue SET queue_status = 'READY', run = run + 1,
                scheduled_exec_time = tg_now(),
                hold_after = CASE WHEN held_by IS NULL OR hold_after < tg_now() THEN NULL
                                  ELSE hold_after END,
                passed_rules = trim(coalesce(passed_rules, '') || ' ' || coalesce(held_by, '')),
                held_by = NULL, last_error = NULL
         WHERE item_type = $1 AND item_id = $2 AND queue_status = 'HELD'";
    let Some(found) = found(tx, item).await? else {
        return Ok(Intervened::NoSuchItem);
    };
    if let Some(why) = found.refuses_release() {
        return Ok(Intervened::Refused(why));
    }
    execute(tx, RELEASE, &[&item.item_type.as_str(), &item.id.as_str()]).await?;
    audit_move(tx, item, "RELEASED", &found, "READY", author).await?;
    Ok(Intervened::Yes)
}

async fn cancel(
    tx: &Transaction<'_>,
    item: &Item,
    status: &StatusMove,
    author: &Author,
    margin: Decimal,
) -> StoreResult<Intervened> {
    const CANCEL: &str = "UPDATE item_queue SET queue_status = 'CANCELLED', finished_at = tg_now(),
                held_by = NULL,
                status = CASE WHEN status = ANY($4) THEN $3 ELSE status END,
                updated_at = CASE WHEN status = ANY($4) THEN tg_now() ELSE updated_at END
         WHERE item_type = $1 AND item_id = $2";
    let Some((found, _)) = hold_plan_and_row(tx, item, margin).await? else {
        return Ok(Intervened::NoSuchItem);
    };
    if let Some(why) = found.refuses_cancel() {
        return Ok(Intervened::Refused(why));
    }
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    execute(tx, CANCEL, &[&kind, &id, &status.to, &status.from]).await?;
    give_back(tx, item).await?;
    audit_move(tx, item, "CANCELLED", &found, "CANCELLED", author).await?;
    Ok(Intervened::Yes)
}

/// Waits for whoever gives this item a turn. What is read in the next statement is what they left: a
/// statement that locks and reads at once reads as of its beginning.
pub(super) async fn lock_row(tx: &Transaction<'_>, item: &Item) -> StoreResult<()> {
    const LOCK: &str = "SELECT 1 FROM item_queue WHERE item_type = $1 AND item_id = $2 FOR UPDATE";
    let key: Params<'_> = &[&item.item_type.as_str(), &item.id.as_str()];
    optional(tx, LOCK, key).await.map(drop)
}

pub(super) async fn hold_plan_and_row(
    tx: &Transaction<'_>,
    item: &Item,
    margin: Decimal,
) -> StoreResult<Option<(Found, Option<Plan>)>> {
    const LANE: &str = "SELECT lane FROM item_queue WHERE item_type = $1 AND item_id = $2";
    let key: Params<'_> = &[&item.item_type.as_str(), &item.id.as_str()];
    let Some(row) = optional(tx, LANE, key).await? else {
        return Ok(None);
    };
    let mut plans = lock_plans(tx, &[row.get(0)], margin).await?;
    let plan = plans.pop_first().map(|(_, plan)| plan);
    lock_row(tx, item).await?;
    Ok(found(tx, item).await?.map(|found| (found, plan)))
}

pub(super) async fn found(c: &impl GenericClient, item: &Item) -> StoreResult<Option<Found>> {
    const FOUND: &str = "SELECT q.queue_status, q.lane,
                EXISTS (SELECT 1 FROM attempt a
                        WHERE a.item_type = q.item_type AND a.item_id = q.item_id
                          AND (a.state = 'DONE' OR (a.state IN ('OPEN', 'UNKNOWN')
                               AND a.attempt_id > t.declined))),
                q.finished_at IS NOT NULL, q.status, q.run
         FROM item_queue q
         CROSS JOIN (SELECT coalesce(max(attempt_id), 0) AS declined FROM attempt
               WHERE item_type = $1 AND item_id = $2 AND (state = 'DECLINED' OR reopened)) t
         WHERE q.item_type = $1 AND q.item_id = $2 FOR UPDATE OF q";
    let row = optional(c, FOUND, &[&item.item_type.as_str(), &item.id.as_str()]).await?;
    row.map(|row| {
        Ok(Found {
            queue_status: word(&row, 0, QueueStatus::parse)?,
            lane: LaneName::new(row.get::<_, String>(1)),
            may_be_done: row.get(2),
            has_ended: row.get(3),
            record_status: row.get(4),
            run: row.get::<_, Count>(5).0,
        })
    })
    .transpose()
}

/// The room of an item's slot comes back, if its window lies ahead; whoever pointed past that
/// window points to it.
pub(super) async fn give_back(tx: &Transaction<'_>, item: &Item) -> StoreResult<()> {
    const SLOT: &str = "SELECT lane, generation, window_start FROM item_queue
         WHERE item_type = $1 AND item_id = $2 AND scheduled_time > (SELECT tg_now())";
    const RETURN: &str = "UPDATE lane_window SET used = greatest(used - 1, 0)
         WHERE lane = $1 AND generation = $2 AND window_start = $3";
    const POINT: &str = "UPDATE lane_window SET next_open = $3
         WHERE lane = $1 AND generation = $2 AND window_start < $3 AND next_open > $3
           AND window_start > (SELECT tg_now()) - $4";
    let key: Params<'_> = &[&item.item_type.as_str(), &item.id.as_str()];
    let Some(row) = optional(tx, SLOT, key).await? else {
        return Ok(());
    };
    let (lane, generation, window): (&str, i64, Us) = (row.get(0), row.get(1), row.get(2));
    execute(tx, RETURN, &[&lane, &generation, &window]).await?;
    // Nothing is placed in a window that has ended.
    let longest = i64::from(LARGEST_WINDOW_SECS) * 1_000_000;
    execute(tx, POINT, &[&lane, &generation, &window, &longest])
        .await
        .map(drop)
}

pub(super) async fn audit_move(
    tx: &Transaction<'_>,
    item: &Item,
    action: &str,
    found: &Found,
    after: &str,
    author: &Author,
) -> StoreResult<()> {
    let entry = Entry {
        item: Some(item),
        action,
        before: Some(found.queue_status.as_str()),
        after: Some(after),
        actor: &author.actor,
        detail: &author.reason,
        ..Entry::default()
    };
    audit(tx, &entry).await
}
