//! The queue: due lanes and orphaned items here; claims, starts, ends, and what a clock that was set back leaves, each in a file.

mod claim;
pub(crate) mod finish;
pub(crate) mod set_back;
mod starts;

use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Row;
use tollgate_core::Timestamp;
use tollgate_core::id::{BatchId, FlowId, Item, ItemId, ItemType, LaneName};
use tollgate_core::ports::{
    Admission, Claim, Claimed, DueLanes, NewItem, Orphaned, Queue, StartRecord, StatusMove,
    StoreResult, ToExecute,
};

use super::{PostgresStore, lanes};
use crate::postgres::admission::admissions::Admit;
use crate::postgres::connection::run::{Params, all, execute};
use crate::postgres::connection::value::{Count, Us, storable};
use crate::telemetry;
use crate::urgency::Urgency;
use crate::value::{micros, until};
use finish::Finish;

#[async_trait]
impl Queue for PostgresStore {
    async fn admit(
        &self,
        item_type: &ItemType,
        items: Vec<NewItem>,
    ) -> StoreResult<Vec<Admission>> {
        let item_type = item_type.clone();
        let measured = telemetry::Admission::begun();
        let admitted = self.admissions.write(Admit { item_type, items }).await;
        measured.ended();
        admitted
    }

    async fn lanes_due(
        &self,
        item_type: &ItemType,
        ahead: Duration,
        stale_after: Duration,
    ) -> StoreResult<DueLanes> {
        /// Per lane, its newest version, the first that waits, and the oldest claim of its batches.
        // The first of an order rather than `min`: the way to it does not depend on how many rows the planner expects.
        const LANES: &str = "SELECT l.name, l.version, l.body, l.created_at, c.closed_until,
                    c.closed_by, c.closed_why, k.body, st.storm_id, st.reason, st.began_at,
                    (SELECT scheduled_exec_time FROM item_queue
                     WHERE item_type = $1 AND lane = l.name AND queue_part = 'O'
                       AND queue_status = 'READY' ORDER BY scheduled_exec_time LIMIT 1),
                    (SELECT min(claimed_at) FROM under_way
                     WHERE item_type = $1 AND lane = l.name AND queue_status = 'CLAIMED'),
                    (SELECT tg_now())
             FROM lane_plan p
             CROSS JOIN LATERAL (SELECT name, version, body, created_at FROM setting
                  WHERE kind = 'lane' AND name = p.lane ORDER BY version DESC LIMIT 1) l
             LEFT JOIN lane_cursor c ON c.lane = l.name
             LEFT JOIN storm st ON st.storm_id = c.storm_id
             LEFT JOIN LATERAL (SELECT body FROM setting
                  WHERE kind = 'calendar' AND name = l.body::json ->> 'calendar'
                  ORDER BY version DESC LIMIT 1) k ON true
             ORDER BY l.name";
        let item_type = item_type.clone();
        let (ahead, stale_after) = (micros(ahead), micros(stale_after));
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let rows = all(c, LANES, &[&item_type.as_str()]).await?;
                    due_from(&rows, ahead, stale_after)
                })
            })
            .await
    }

    async fn claim(&self, claim: Claim) -> StoreResult<Vec<Claimed>> {
        let margin = self.gate_margin;
        self.in_force(Urgency::Normal, move |tx| {
            Box::pin(async move { claim::claim(tx, &claim, margin).await })
        })
        .await
    }

    async fn record_starts(
        &self,
        item_type: &ItemType,
        batch: &BatchId,
        starts: Vec<StartRecord>,
        max_retries: u32,
    ) -> StoreResult<u64> {
        let (item_type, batch) = (item_type.clone(), batch.clone());
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move {
                    starts::record(tx, &item_type, &batch, &starts, max_retries).await
                })
            })
            .await
    }

    async fn to_execute(
        &self,
        item_type: &ItemType,
        runs: Vec<(ItemId, u32)>,
    ) -> StoreResult<Vec<ToExecute>> {
        const TO_EXECUTE: &str =
            "SELECT id, run, due, body, (SELECT tg_now()) FROM tg_to_execute($1, $2, $3)";
        let item_type = item_type.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let ids: Vec<&str> = runs.iter().map(|(id, _)| id.as_str()).collect();
                    let numbers: Vec<i64> = runs.iter().map(|(_, run)| i64::from(*run)).collect();
                    let params: Params<'_> = &[&item_type.as_str(), &ids, &numbers];
                    let rows = all(c, TO_EXECUTE, params).await?;
                    Ok(rows.iter().map(to_execute_from).collect())
                })
            })
            .await
    }

    async fn release(
        &self,
        item_type: &ItemType,
        lane: &LaneName,
        batch: &BatchId,
    ) -> StoreResult<u64> {
        let (item_type, lane, batch) = (item_type.clone(), lane.clone(), batch.clone());
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { starts::release(tx, &item_type, &lane, &batch).await })
            })
            .await
    }

    async fn put_back(
        &self,
        item: &Item,
        run: u32,
        pause: Duration,
        why: &str,
    ) -> StoreResult<bool> {
        let back = Back {
            pause: Some(pause),
            why,
            failed: false,
        };
        self.put_back_as(item, run, back).await
    }

    async fn put_back_in_place(&self, item: &Item, run: u32, why: &str) -> StoreResult<bool> {
        let back = Back {
            pause: None,
            why,
            failed: false,
        };
        self.put_back_as(item, run, back).await
    }

    async fn put_back_failed(
        &self,
        item: &Item,
        run: u32,
        pause: Duration,
        why: &str,
    ) -> StoreResult<bool> {
        let back = Back {
            pause: Some(pause),
            why,
            failed: true,
        };
        self.put_back_as(item, run, back).await
    }

    async fn finish(&self, item: &Item, run: u32, status: StatusMove) -> StoreResult<bool> {
        let item = item.clone();
        self.ends.write(Finish { item, run, status }).await
    }

    async fn orphaned(
        &self,
        item_type: &ItemType,
        older_than: Duration,
        limit: u32,
    ) -> StoreResult<Vec<Orphaned>> {
        const ADRIFT: &str = "SELECT q.item_id, q.run, q.retry_count,
                    coalesce(q.exec_workflow_id, '')
             FROM under_way q
             WHERE q.item_type = $1 AND q.queue_status = 'DISPATCHED'
               AND q.dispatched_at < (SELECT tg_now()) - $2
             ORDER BY q.dispatched_at LIMIT $3";
        let (item_type, limit) = (item_type.clone(), i64::from(limit));
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let older = micros(older_than);
                    let rows = all(c, ADRIFT, &[&item_type.as_str(), &older, &limit]).await?;
                    Ok(rows.iter().map(orphaned_from).collect())
                })
            })
            .await
    }

    async fn restart_orphaned(
        &self,
        item: &Item,
        run: u32,
        why: &str,
        pause: Duration,
        max_retries: u32,
    ) -> StoreResult<bool> {
        const RESTART: &str = "WITH moved AS (
                 UPDATE item_queue SET
                     queue_status = CASE WHEN retry_count + 1 >= $4 THEN 'DEAD' ELSE 'READY' END,
                     retry_count = retry_count + 1, run = run + 1, last_error = $5,
                     scheduled_exec_time = tg_now() + $6, claimed_at = NULL, dispatched_at = NULL
                 WHERE item_type = $1 AND item_id = $2 AND run = $3
                   AND queue_status = 'DISPATCHED' AND finished_at IS NULL
                 RETURNING item_type, item_id, queue_status
             )
             INSERT INTO audit_log (item_type, item_id, action, status_before, status_after,
                                    actor, detail, created_at)
             SELECT item_type, item_id, 'RESTARTED', 'DISPATCHED', queue_status, 'sweeper', $5,
                    tg_now()
             FROM moved";
        let (item, why) = (item.clone(), storable(why).into_owned());
        let (run, retries) = (i64::from(run), i64::from(max_retries));
        self.in_force(Urgency::Normal, move |tx| {
            Box::pin(async move {
                let (kind, id) = (item.item_type.as_str(), item.id.as_str());
                let params: Params<'_> = &[&kind, &id, &run, &retries, &why, &micros(pause)];
                Ok(execute(tx, RESTART, params).await? == 1)
            })
        })
        .await
    }
}

/// How an item goes back to the queue.
struct Back<'a> {
    /// Due after this time; as before without one.
    pause: Option<Duration>,
    why: &'a str,
    /// It counts among the item's failures.
    failed: bool,
}

impl PostgresStore {
    async fn put_back_as(&self, item: &Item, run: u32, back: Back<'_>) -> StoreResult<bool> {
        const PUT_BACK: &str = "WITH moved AS (
                 UPDATE item_queue SET queue_status = 'READY', run = run + 1,
                        scheduled_exec_time = coalesce(tg_now() + $4, scheduled_exec_time),
                        last_error = $5, failures = failures + CASE WHEN $6 THEN 1 ELSE 0 END,
                        claimed_at = NULL, dispatched_at = NULL
                 WHERE item_type = $1 AND item_id = $2 AND run = $3
                   AND queue_status IN ('CLAIMED', 'DISPATCHED') AND finished_at IS NULL
                 RETURNING item_type, item_id
             )
             INSERT INTO audit_log (item_type, item_id, action, status_after, actor, detail,
                                    created_at)
             SELECT item_type, item_id, 'PUT_BACK', 'READY', 'sender', $5, tg_now() FROM moved";
        let Back { pause, why, failed } = back;
        let (item, run, why) = (item.clone(), i64::from(run), storable(why).into_owned());
        self.in_force(Urgency::Urgent, move |tx| {
            Box::pin(async move {
                let (kind, id) = (item.item_type.as_str(), item.id.as_str());
                let params: Params<'_> = &[&kind, &id, &run, &pause.map(micros), &why, &failed];
                Ok(execute(tx, PUT_BACK, params).await? == 1)
            })
        })
        .await
    }
}

fn due_from(rows: &[Row], ahead: i64, stale_after: i64) -> StoreResult<DueLanes> {
    let mut due = DueLanes::default();
    for row in rows {
        let lane = lanes::lane_from(row)?;
        let [ready, claimed] = [11, 12].map(|column| row.get::<_, Option<i64>>(column));
        let reach = [ready.map(|t| t - ahead), claimed.map(|t| t + stale_after)];
        let first = reach.into_iter().flatten().min();
        due.add(
            &lane,
            first.and_then(|us| Timestamp::from_microsecond(us).ok()),
            row.get::<_, Us>(13).0,
        );
    }
    Ok(due)
}

fn to_execute_from(row: &Row) -> ToExecute {
    ToExecute {
        id: ItemId::new(row.get::<_, String>(0)),
        run: row.get::<_, Count>(1).0,
        delay: until(row.get(4), row.get(2)),
        context_json: row.get(3),
    }
}

fn orphaned_from(row: &Row) -> Orphaned {
    Orphaned {
        id: ItemId::new(row.get::<_, String>(0)),
        run: row.get::<_, Count>(1).0,
        retry_count: row.get::<_, Count>(2).0,
        flow: FlowId::new(row.get::<_, String>(3)),
    }
}
