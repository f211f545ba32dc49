//! The queue: due lanes, claims under a token, starts, ends and what is adrift.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::id::{BatchId, Fence, Item, ItemId, ItemType, LaneName};
use tollgate_core::ports::{
    Admission, Adrift, Claim, Claimed, DueLanes, NewItem, Queue, SettingKind, StartRecord, Started,
    StatusMove, StoreResult,
};

use super::SqliteStore;
use super::accounts::{Entry, audit};
use super::admit::Batch;
use super::error::store_error;
use super::records::move_status;
use super::value::{Us, micros, until};
use super::writer::Urgency;
use super::{lanes, settings};

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
        self.writer.write(Urgency::Normal, write).await
    }

    async fn lanes_due(
        &self,
        item_type: &ItemType,
        ahead: Duration,
        stale_after: Duration,
    ) -> StoreResult<DueLanes> {
        let (item_type, now) = (item_type.clone(), self.clock.now_us());
        let look = Look {
            now,
            ahead: micros(ahead),
            stale_after: micros(stale_after),
        };
        self.readers
            .read(move |c| lanes_due(c, &item_type, look))
            .await
    }

    async fn claim(&self, claim: Claim) -> StoreResult<Vec<Claimed>> {
        let (clock, margin) = (self.clock.clone(), self.options.gate_margin);
        let write = move |c: &Connection| {
            let now = clock.now_us();
            let Some(lane) = lanes::lane(c, &claim.lane)? else {
                return Ok(vec![]);
            };
            let sendable = lane.pace(margin).turns_in(claim.credit_horizon).max(1);
            let unsent = unsent(c, &claim).map_err(store_error)?;
            let limit = claim.limit.min(sendable.saturating_sub(unsent));
            take(c, &claim, limit, now).map_err(store_error)
        };
        self.writer.write(Urgency::Normal, write).await
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
            record_starts(c, &item_type, &batch, &starts, max_retries, Us(clock.now()))
                .map_err(store_error)
        };
        self.writer.write(Urgency::Normal, write).await
    }

    async fn release(
        &self,
        item_type: &ItemType,
        claims: Vec<(ItemId, Fence)>,
    ) -> StoreResult<u64> {
        let item_type = item_type.clone();
        let write = move |c: &Connection| {
            let mut released = 0;
            for (id, fence) in claims {
                released += c
                    .prepare_cached(
                        "UPDATE item_queue SET queue_status = 'READY', claimed_at = NULL
                         WHERE item_type = ?1 AND item_id = ?2
                           AND queue_status = 'CLAIMED' AND fence = ?3",
                    )?
                    .execute(params![item_type.as_str(), id.as_str(), fence.0])?;
            }
            Ok(released as u64)
        };
        self.writer
            .write(Urgency::Normal, move |c| write(c).map_err(store_error))
            .await
    }

    async fn put_back(
        &self,
        item: &Item,
        run: u32,
        pause: Duration,
        why: &str,
    ) -> StoreResult<bool> {
        let (item, why, clock) = (item.clone(), why.to_owned(), self.clock.clone());
        let write = move |c: &Connection| {
            let now = Us(clock.now());
            if put_back(c, &item, run, pause, &why, now)? == 0 {
                return Ok(false);
            }
            let entry = Entry {
                item: Some(&item),
                action: "PUT_BACK",
                after: Some("READY"),
                actor: "sender",
                detail: &why,
                ..Entry::default()
            };
            audit(c, now, &entry)?;
            Ok(true)
        };
        self.writer
            .write(Urgency::Urgent, move |c| write(c).map_err(store_error))
            .await
    }

    async fn finish(&self, item: &Item, run: u32, status: StatusMove) -> StoreResult<bool> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| {
            let now = Us(clock.now());
            if finish(c, &item, run, now)? == 0 {
                return is_finished(c, &item, run);
            }
            move_status(c, &item, &status, now)?;
            Ok(true)
        };
        self.writer
            .write(Urgency::Urgent, move |c| write(c).map_err(store_error))
            .await
    }

    async fn adrift(
        &self,
        item_type: &ItemType,
        older_than: Duration,
        limit: u32,
    ) -> StoreResult<Vec<Adrift>> {
        let (item_type, before) = (item_type.clone(), self.clock.now_us() - micros(older_than));
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT q.item_id, q.run, q.retry_count, x.context_json
                 FROM item_queue q
                 JOIN item_context x ON x.item_type = q.item_type AND x.item_id = q.item_id
                 WHERE q.item_type = ?1 AND q.queue_status = 'DISPATCHED'
                   AND q.finished_at IS NULL AND q.dispatched_at < ?2
                 ORDER BY q.dispatched_at LIMIT ?3",
            )?
            .query_map(params![item_type.as_str(), before, limit], |row| {
                Ok(Adrift {
                    id: ItemId::new(row.get::<_, String>(0)?),
                    run: row.get(1)?,
                    retry_count: row.get(2)?,
                    context_json: row.get(3)?,
                })
            })?
            .collect()
        };
        self.readers.read(read).await
    }

    async fn restart_adrift(
        &self,
        item: &Item,
        run: u32,
        why: &str,
        pause: Duration,
        max_retries: u32,
    ) -> StoreResult<bool> {
        let (item, why, clock) = (item.clone(), why.to_owned(), self.clock.clone());
        let write = move |c: &Connection| {
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
                actor: "sweeper",
                detail: &why,
                ..Entry::default()
            };
            audit(c, Us(clock.now()), &entry)?;
            Ok(true)
        };
        self.writer
            .write(Urgency::Normal, move |c| write(c).map_err(store_error))
            .await
    }
}

#[derive(Clone, Copy)]
struct Look {
    now: i64,
    ahead: i64,
    stale_after: i64,
}

fn lanes_due(c: &Connection, item_type: &ItemType, look: Look) -> rusqlite::Result<DueLanes> {
    let mut due = DueLanes::default();
    for name in settings::names(c, SettingKind::Lane)?
        .into_iter()
        .map(LaneName::new)
    {
        let lane =
            lanes::lane(c, &name).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
        let closed = lanes::closed_until(c, &name)?.filter(|then| *then > look.now);
        if lane.is_none_or(|lane| lane.pause.is_some()) {
            continue;
        }
        let key = params![item_type.as_str(), name.as_str()];
        let ready: Option<i64> = c
            .prepare_cached(
                "SELECT min(scheduled_exec_time) FROM item_queue
                 WHERE item_type = ?1 AND lane = ?2 AND queue_status = 'READY'",
            )?
            .query_row(key, |row| row.get(0))?;
        let claimed: Option<i64> = c
            .prepare_cached(
                "SELECT min(claimed_at) FROM item_queue
                 WHERE item_type = ?1 AND lane = ?2 AND queue_status = 'CLAIMED'",
            )?
            .query_row(key, |row| row.get(0))?;
        let reach = [
            ready.map(|t| t - look.ahead),
            claimed.map(|t| t + look.stale_after),
        ];
        let Some(first) = reach.into_iter().flatten().min() else {
            continue;
        };
        let first = first.max(closed.unwrap_or(i64::MIN));
        if first <= look.now {
            due.lanes.push(name);
        } else {
            let wait = until(look.now, first);
            due.next_in = Some(due.next_in.map_or(wait, |other| other.min(wait)));
        }
    }
    Ok(due)
}

/// What is claimed or dispatched on a lane and has not had its turn.
fn unsent(c: &Connection, claim: &Claim) -> rusqlite::Result<u32> {
    c.prepare_cached(
        "SELECT (SELECT count(*) FROM item_queue
                 WHERE item_type = ?1 AND lane = ?2 AND queue_status = 'CLAIMED')
              + (SELECT count(*) FROM item_queue q
                 WHERE q.item_type = ?1 AND q.lane = ?2
                   AND q.queue_status = 'DISPATCHED' AND q.finished_at IS NULL
                   AND NOT EXISTS (SELECT 1 FROM attempt a
                        WHERE a.item_type = q.item_type AND a.item_id = q.item_id AND a.run = q.run))",
    )?
    .query_row(params![claim.item_type.as_str(), claim.lane.as_str()], |row| row.get(0))
}

/// READY and stale claims are two questions, each served by its own index.
const DUE: &str = "SELECT q.item_id, q.run, q.fence, q.scheduled_exec_time, x.context_json
     FROM item_queue q INDEXED BY item_queue_ready
     LEFT JOIN item_context x ON x.item_type = q.item_type AND x.item_id = q.item_id
     WHERE q.item_type = ?1 AND q.lane = ?2 AND q.queue_status = 'READY'
       AND q.scheduled_exec_time <= ?3
     ORDER BY q.scheduled_exec_time LIMIT ?4";
const STALE: &str = "SELECT q.item_id, q.run, q.fence, q.scheduled_exec_time, x.context_json
     FROM item_queue q INDEXED BY item_queue_claimed
     LEFT JOIN item_context x ON x.item_type = q.item_type AND x.item_id = q.item_id
     WHERE q.item_type = ?1 AND q.lane = ?2 AND q.queue_status = 'CLAIMED'
       AND q.claimed_at <= ?3
     ORDER BY q.claimed_at LIMIT ?4";

struct Candidate {
    id: String,
    run: u32,
    fence: i64,
    scheduled: i64,
    context_json: Option<String>,
}

fn take(c: &Connection, claim: &Claim, limit: u32, now: i64) -> rusqlite::Result<Vec<Claimed>> {
    // A stale claim is counted as unsent already, so the credit does not bind it.
    let mut candidates = candidates(
        c,
        STALE,
        claim,
        now - micros(claim.stale_after),
        claim.limit,
    )?;
    candidates.extend(self::candidates(
        c,
        DUE,
        claim,
        now + micros(claim.ahead),
        limit,
    )?);
    let mut claimed = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let Some(context_json) = candidate.context_json else {
            bury(c, claim, &candidate.id, now)?;
            continue;
        };
        let fence = Fence(candidate.fence + 1);
        c.prepare_cached(
            "UPDATE item_queue SET queue_status = 'CLAIMED', fence = ?3, claimed_at = ?4,
                    dispatch_batch_id = ?5
             WHERE item_type = ?1 AND item_id = ?2",
        )?
        .execute(params![
            claim.item_type.as_str(),
            candidate.id,
            fence.0,
            now,
            claim.batch.as_str()
        ])?;
        claimed.push(Claimed {
            id: ItemId::new(candidate.id),
            fence,
            run: candidate.run,
            delay: until(now, candidate.scheduled),
            context_json,
        });
    }
    Ok(claimed)
}

fn candidates(
    c: &Connection,
    sql: &str,
    claim: &Claim,
    before: i64,
    limit: u32,
) -> rusqlite::Result<Vec<Candidate>> {
    c.prepare_cached(sql)?
        .query_map(
            params![claim.item_type.as_str(), claim.lane.as_str(), before, limit],
            |row| {
                Ok(Candidate {
                    id: row.get(0)?,
                    run: row.get(1)?,
                    fence: row.get(2)?,
                    scheduled: row.get(3)?,
                    context_json: row.get(4)?,
                })
            },
        )?
        .collect()
}

/// An item without its context can never run; it harms nobody else.
fn bury(c: &Connection, claim: &Claim, id: &str, now: i64) -> rusqlite::Result<()> {
    let why = "its context is missing";
    c.prepare_cached(
        "UPDATE item_queue SET queue_status = 'DEAD', last_error = ?3
         WHERE item_type = ?1 AND item_id = ?2",
    )?
    .execute(params![claim.item_type.as_str(), id, why])?;
    let item = Item::new(&claim.item_type, &ItemId::new(id));
    let entry = Entry {
        batch: Some(claim.batch.as_str()),
        item: Some(&item),
        action: "DEAD",
        after: Some("DEAD"),
        actor: "dispatcher",
        detail: why,
        ..Entry::default()
    };
    let now = tollgate_core::Timestamp::from_microsecond(now).unwrap_or_default();
    audit(c, Us(now), &entry)
}

fn record_starts(
    c: &Connection,
    item_type: &ItemType,
    batch: &BatchId,
    starts: &[StartRecord],
    max_retries: u32,
    now: Us,
) -> rusqlite::Result<u64> {
    let (mut moved, mut failed) = (0, 0_u64);
    for start in starts {
        let rows = match &start.started {
            Started::New | Started::Already => c
                .prepare_cached(
                    "UPDATE item_queue SET queue_status = 'DISPATCHED', dispatched_at = ?4,
                            exec_workflow_id = ?5
                     WHERE item_type = ?1 AND item_id = ?2
                       AND queue_status = 'CLAIMED' AND fence = ?3",
                )?
                .execute(params![
                    item_type.as_str(),
                    start.id.as_str(),
                    start.fence.0,
                    now,
                    start.flow.as_str()
                ])?,
            Started::Failed(why) => {
                failed += 1;
                start_failed(c, item_type, batch, start, why, max_retries, now)?
            }
        };
        moved += rows as u64;
    }
    let detail = format!(
        "{} claimed, {} started, {failed} failed",
        starts.len(),
        moved - failed.min(moved)
    );
    let entry = Entry {
        batch: Some(batch.as_str()),
        action: "BATCH_COMPLETE",
        actor: "dispatcher",
        detail: &detail,
        ..Entry::default()
    };
    audit(c, now, &entry)?;
    Ok(moved)
}

fn start_failed(
    c: &Connection,
    item_type: &ItemType,
    batch: &BatchId,
    start: &StartRecord,
    why: &str,
    max_retries: u32,
    now: Us,
) -> rusqlite::Result<usize> {
    let after = c
        .prepare_cached(
            "UPDATE item_queue SET
                 queue_status = CASE WHEN retry_count + 1 >= ?4 THEN 'DEAD' ELSE 'READY' END,
                 retry_count = retry_count + 1, last_error = ?5, claimed_at = NULL
             WHERE item_type = ?1 AND item_id = ?2 AND queue_status = 'CLAIMED' AND fence = ?3
             RETURNING queue_status",
        )?
        .query_row(
            params![
                item_type.as_str(),
                start.id.as_str(),
                start.fence.0,
                max_retries,
                why
            ],
            |row| row.get::<_, String>(0),
        )
        .optional()?;
    let Some(after) = after else { return Ok(0) };
    let item = Item::new(item_type, &start.id);
    let entry = Entry {
        batch: Some(batch.as_str()),
        item: Some(&item),
        action: "DISPATCH_FAILED",
        before: Some("CLAIMED"),
        after: Some(&after),
        actor: "dispatcher",
        detail: why,
    };
    audit(c, now, &entry)?;
    Ok(1)
}

/// Back to READY as the next run: waiting happens in the queue.
pub(super) fn put_back(
    c: &Connection,
    item: &Item,
    run: u32,
    pause: Duration,
    why: &str,
    now: Us,
) -> rusqlite::Result<usize> {
    c.prepare_cached(
        "UPDATE item_queue SET queue_status = 'READY', run = run + 1, scheduled_exec_time = ?4,
                last_error = ?5, claimed_at = NULL, dispatched_at = NULL
         WHERE item_type = ?1 AND item_id = ?2 AND run = ?3
           AND queue_status IN ('CLAIMED', 'DISPATCHED') AND finished_at IS NULL",
    )?
    .execute(params![
        item.item_type.as_str(),
        item.id.as_str(),
        run,
        now.0.as_microsecond() + micros(pause),
        why
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
