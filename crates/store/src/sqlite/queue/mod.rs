//! The queue's use cases, each one transaction; claims, starts, and what a clock that was set back leaves, each in a file.

mod claim;
pub(crate) mod set_back;
mod starts;

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::actor;
use tollgate_core::id::{BatchId, FlowId, Item, ItemId, ItemType, LaneName};
use tollgate_core::ports::{
    Admission, Claim, Claimed, DueLanes, NewItem, Orphaned, Queue, StartRecord, StatusMove,
    StoreResult, ToExecute,
};

use super::SqliteStore;
use super::accounts::audit;
use super::lanes;
use super::records::move_status;
use crate::audit::Entry;
use crate::sqlite::admission::admit::Batch;
use crate::sqlite::connection::value::Us;
use crate::telemetry;
use crate::urgency::Urgency;
use crate::value::{micros, until};

#[async_trait]
impl Queue for SqliteStore {
    async fn admit(
        &self,
        item_type: &ItemType,
        items: Vec<NewItem>,
    ) -> StoreResult<Vec<Admission>> {
        let (item_type, clock) = (item_type.clone(), self.clock.clone());
        let (margin, seed) = (self.options.gate_margin, self.options.seed);
        let write = move |c: &Connection| {
            let now = clock.now();
            Batch {
                c,
                item_type: &item_type,
                margin,
                seed,
                now,
            }
            .admit(items)
        };
        let measured = telemetry::Admission::begun();
        let admitted = self.writer.write(Urgency::Normal, write).await;
        measured.ended();
        admitted
    }

    async fn lanes_due(
        &self,
        item_type: &ItemType,
        ahead: Duration,
        stale_after: Duration,
    ) -> StoreResult<DueLanes> {
        let (item_type, now) = (item_type.clone(), self.clock.now_us());
        let look = claim::Look {
            now,
            ahead: micros(ahead),
            stale_after: micros(stale_after),
        };
        self.readers
            .read(move |c| claim::lanes_due(c, &item_type, look))
            .await
    }

    async fn claim(&self, claim: Claim) -> StoreResult<Vec<Claimed>> {
        let (clock, margin) = (self.clock.clone(), self.options.gate_margin);
        let write = move |c: &Connection| -> rusqlite::Result<Vec<Claimed>> {
            let Some(lane) = lanes::in_force(c, &claim.lane)? else {
                return Ok(vec![]);
            };
            let unsent = claim::unsent(c, &claim.lane)?;
            let credit = lane.credit(margin, claim.credit_horizon, unsent);
            claim::take(c, &claim, claim.limit.min(credit), clock.now_us())
        };
        self.write_in_force(Urgency::Normal, write).await
    }

    async fn record_starts(
        &self,
        item_type: &ItemType,
        batch: &BatchId,
        starts: Vec<StartRecord>,
        max_retries: u32,
    ) -> StoreResult<u64> {
        let (item_type, batch, clock) = (item_type.clone(), batch.clone(), self.clock.clone());
        let write = move |c: &Connection| {
            starts::record(c, &item_type, &batch, &starts, max_retries, Us(clock.now()))
        };
        self.writer.write(Urgency::Normal, write).await
    }

    async fn to_execute(
        &self,
        item_type: &ItemType,
        runs: Vec<(ItemId, u32)>,
    ) -> StoreResult<Vec<ToExecute>> {
        let (item_type, now) = (item_type.clone(), self.clock.now_us());
        let read = move |c: &Connection| {
            let mut find = c.prepare_cached(
                "SELECT q.scheduled_exec_time, b.body FROM item_queue q
                 JOIN item_body b ON b.item_type = q.item_type AND b.item_id = q.item_id
                 WHERE q.item_type = ?1 AND q.item_id = ?2 AND q.run = ?3
                   AND q.queue_status IN ('CLAIMED', 'DISPATCHED') AND q.finished_at IS NULL",
            )?;
            let mut found = Vec::with_capacity(runs.len());
            for (id, run) in runs {
                let key = params![item_type.as_str(), id.as_str(), run];
                let row = find.query_row(key, |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)));
                if let Some((scheduled, context_json)) = row.optional()? {
                    found.push(ToExecute {
                        id,
                        run,
                        delay: until(now, scheduled),
                        context_json,
                    });
                }
            }
            Ok(found)
        };
        self.readers.read(read).await
    }

    async fn release(
        &self,
        item_type: &ItemType,
        lane: &LaneName,
        batch: &BatchId,
    ) -> StoreResult<u64> {
        let (item_type, lane, batch) = (item_type.clone(), lane.clone(), batch.clone());
        let write = move |c: &Connection| -> rusqlite::Result<u64> {
            let released = c
                .prepare_cached(
                    "UPDATE item_queue INDEXED BY item_queue_claimed
                     SET queue_status = 'READY', run = run + 1, claimed_at = NULL
                     WHERE lane = ?1 AND item_type = ?2 AND queue_status = 'CLAIMED'
                       AND dispatch_batch_id = ?3",
                )?
                .execute(params![lane.as_str(), item_type.as_str(), batch.as_str()])?;
            Ok(released as u64)
        };
        self.writer.write(Urgency::Normal, write).await
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
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| -> rusqlite::Result<bool> {
            let now = Us(clock.now());
            if finish(c, &item, run, now)? == 0 {
                return is_finished(c, &item, run);
            }
            move_status(c, &item, &status, now)?;
            Ok(true)
        };
        self.write_in_force(Urgency::Urgent, write).await
    }

    async fn orphaned(
        &self,
        item_type: &ItemType,
        older_than: Duration,
        limit: u32,
    ) -> StoreResult<Vec<Orphaned>> {
        let (item_type, before) = (item_type.clone(), self.clock.now_us() - micros(older_than));
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT q.item_id, q.run, q.retry_count, coalesce(q.exec_workflow_id, '')
                 FROM item_queue q
                 WHERE q.item_type = ?1 AND q.queue_status = 'DISPATCHED'
                   AND q.finished_at IS NULL AND q.dispatched_at < ?2
                 ORDER BY q.dispatched_at LIMIT ?3",
            )?
            .query_map(params![item_type.as_str(), before, limit], |row| {
                Ok(Orphaned {
                    id: ItemId::new(row.get::<_, String>(0)?),
                    run: row.get(1)?,
                    retry_count: row.get(2)?,
                    flow: FlowId::new(row.get::<_, String>(3)?),
                })
            })?
            .collect()
        };
        self.readers.read(read).await
    }

    async fn restart_orphaned(
        &self,
        item: &Item,
        run: u32,
        why: &str,
        pause: Duration,
        max_retries: u32,
    ) -> StoreResult<bool> {
        let (item, why, clock) = (item.clone(), why.to_owned(), self.clock.clone());
        let write = move |c: &Connection| -> rusqlite::Result<bool> {
            let now = clock.now_us();
            let after = c
                .prepare_cached(
                    "UPDATE item_queue SET
                         queue_status = CASE WHEN retry_count + 1 >= ?4 THEN 'DEAD' ELSE 'READY' END,
                         retry_count = retry_count + 1, run = run + 1, last_error = ?5,
                         scheduled_exec_time = ?6, claimed_at = NULL, dispatched_at = NULL
                     WHERE item_type = ?1 AND item_id = ?2 AND run = ?3
                       AND queue_status = 'DISPATCHED' AND finished_at IS NULL
                     RETURNING queue_status",
                )?
                .query_row(
                    params![item.item_type.as_str(), item.id.as_str(), run, max_retries, why, now + micros(pause)],
                    |row| row.get::<_, String>(0),
                )
                .optional()?;
            let Some(after) = after else { return Ok(false) };
            let entry = Entry {
                item: Some(&item),
                action: "RESTARTED",
                before: Some("DISPATCHED"),
                after: Some(&after),
                actor: actor::SWEEPER,
                detail: &why,
                ..Entry::default()
            };
            audit(c, Us(clock.now()), &entry)?;
            Ok(true)
        };
        self.write_in_force(Urgency::Normal, write).await
    }
}

/// How an item goes back to the queue.
#[derive(Clone, Copy)]
pub(super) struct Back<'a> {
    /// Due after this time; as before without one.
    pub(super) pause: Option<Duration>,
    pub(super) why: &'a str,
    /// It counts among the item's failures.
    pub(super) failed: bool,
}

impl SqliteStore {
    async fn put_back_as(&self, item: &Item, run: u32, back: Back<'_>) -> StoreResult<bool> {
        let Back { pause, failed, .. } = back;
        let (item, why, clock) = (item.clone(), back.why.to_owned(), self.clock.clone());
        let write = move |c: &Connection| -> rusqlite::Result<bool> {
            let (now, why) = (Us(clock.now()), &*why);
            if put_back(c, &item, run, Back { pause, why, failed }, now)? == 0 {
                return Ok(false);
            }
            let entry = Entry {
                item: Some(&item),
                action: "PUT_BACK",
                after: Some("READY"),
                actor: actor::SENDER,
                detail: why,
                ..Entry::default()
            };
            audit(c, now, &entry)?;
            Ok(true)
        };
        self.write_in_force(Urgency::Urgent, write).await
    }
}

/// Back to READY as the next run: waiting happens in the queue.
pub(super) fn put_back(
    c: &Connection,
    item: &Item,
    run: u32,
    back: Back<'_>,
    now: Us,
) -> rusqlite::Result<usize> {
    c.prepare_cached(
        "UPDATE item_queue SET queue_status = 'READY', run = run + 1,
                scheduled_exec_time = coalesce(?4, scheduled_exec_time),
                last_error = ?5, failures = failures + ?6, claimed_at = NULL, dispatched_at = NULL
         WHERE item_type = ?1 AND item_id = ?2 AND run = ?3
           AND queue_status IN ('CLAIMED', 'DISPATCHED') AND finished_at IS NULL",
    )?
    .execute(params![
        item.item_type.as_str(),
        item.id.as_str(),
        run,
        back.pause
            .map(|pause| now.0.as_microsecond() + micros(pause)),
        back.why,
        back.failed
    ])
}

pub(super) fn finish(c: &Connection, item: &Item, run: u32, now: Us) -> rusqlite::Result<usize> {
    c.prepare_cached(
        "UPDATE item_queue SET queue_status = 'DISPATCHED', finished_at = ?4,
                dispatched_at = coalesce(dispatched_at, ?4)
         WHERE item_type = ?1 AND item_id = ?2 AND run = ?3
           AND queue_status IN ('CLAIMED', 'DISPATCHED') AND finished_at IS NULL",
    )?
    .execute(params![item.item_type.as_str(), item.id.as_str(), run, now])
}

fn is_finished(c: &Connection, item: &Item, run: u32) -> rusqlite::Result<bool> {
    c.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM item_queue WHERE item_type = ?1 AND item_id = ?2
                        AND run = ?3 AND finished_at IS NOT NULL)",
    )?
    .query_row(
        params![item.item_type.as_str(), item.id.as_str(), run],
        |row| row.get(0),
    )
}
