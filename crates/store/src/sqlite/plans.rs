//! The plan of a lane as a whole: reading it, placing it anew, and recounting it.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use rust_decimal::Decimal;
use tollgate_core::Timestamp;
use tollgate_core::id::{ItemId, ItemType, LaneName};
use tollgate_core::lane_in_force::no_such_lane;
use tollgate_core::ports::{
    Author, Plans, Recounted, Replanned, Spot, StoreError, StoreResult, Waiting,
};
use tollgate_core::slot::steady_random;

use super::SqliteStore;
use super::accounts::{Entry, audit};
use super::counters::Plan;
use super::error::store_error;
use super::lanes;
use super::value::Us;
use super::writer::Urgency;

/// Counters of older generations are forgotten so many at a time.
const FORGOTTEN_AT_ONCE: u32 = 10_000;

#[async_trait]
impl Plans for SqliteStore {
    async fn waiting(
        &self,
        lane: &LaneName,
        item_type: &ItemType,
        after: Option<Spot>,
        limit: u32,
    ) -> StoreResult<Vec<Waiting>> {
        let (lane, item_type) = (lane.clone(), item_type.clone());
        self.readers
            .read(move |c| waiting(c, &lane, &item_type, i64::MAX, after, limit))
            .await
    }

    async fn backlog(&self, lane: &LaneName, before: Timestamp) -> StoreResult<u64> {
        let lane = lane.clone();
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT count(*) FROM item_queue INDEXED BY item_queue_ready
                 WHERE lane = ?1 AND queue_status = 'READY' AND scheduled_exec_time < ?2",
            )?
            .query_row(params![lane.as_str(), Us(before)], |row| {
                row.get::<_, i64>(0).map(i64::unsigned_abs)
            })
        };
        self.readers.read(read).await
    }

    async fn begin_replan(&self, lane: &LaneName, author: Author) -> StoreResult<i64> {
        let (lane, clock) = (lane.clone(), self.clock.clone());
        let write = move |c: &Connection| begin(c, &lane, &author, Us(clock.now()));
        self.writer.write(Urgency::Normal, write).await
    }

    async fn replan_some(
        &self,
        lane: &LaneName,
        item_type: &ItemType,
        generation: i64,
        after: Option<Spot>,
        limit: u32,
    ) -> StoreResult<Vec<Replanned>> {
        let (lane, item_type) = (lane.clone(), item_type.clone());
        let (clock, margin) = (self.clock.clone(), self.options.gate_margin);
        let write = move |c: &Connection| {
            same_generation(c, &lane, generation)?;
            let next = || {
                adopt(c, &lane, generation)?;
                let items = waiting(c, &lane, &item_type, generation, after, limit)?;
                place(c, &lane, &item_type, items, margin, clock.now())
            };
            next().map_err(store_error)
        };
        self.writer.write(Urgency::Normal, write).await
    }

    async fn end_replan(
        &self,
        lane: &LaneName,
        generation: i64,
        summary: String,
        author: Author,
    ) -> StoreResult<()> {
        let (name, clock) = (lane.clone(), self.clock.clone());
        let write = move |c: &Connection| {
            same_generation(c, &name, generation)?;
            adopt(c, &name, generation)
                .and_then(|()| end(c, &name, &summary, &author, Us(clock.now())))
                .map_err(store_error)
        };
        self.writer.write(Urgency::Normal, write).await?;
        loop {
            let lane = lane.clone();
            let forget = move |c: &Connection| forget(c, &lane, generation).map_err(store_error);
            if self.writer.write(Urgency::Normal, forget).await? == 0 {
                return Ok(());
            }
        }
    }

    async fn open_replan(&self, lane: &LaneName) -> StoreResult<Option<i64>> {
        let lane = lane.clone();
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT generation FROM lane_plan WHERE lane = ?1 AND replan_since IS NOT NULL",
            )?
            .query_row([lane.as_str()], |row| row.get(0))
            .optional()
        };
        self.readers.read(read).await
    }

    async fn recount(&self, lane: &LaneName) -> StoreResult<Recounted> {
        let (lane, clock) = (lane.clone(), self.clock.clone());
        let write = move |c: &Connection| recount(c, &lane, Us(clock.now()));
        self.writer
            .write(Urgency::Normal, move |c| write(c).map_err(store_error))
            .await
    }
}

/// Never attempted, of a generation before `before`, in the order of their slots.
fn waiting(
    c: &Connection,
    lane: &LaneName,
    item_type: &ItemType,
    before: i64,
    after: Option<Spot>,
    limit: u32,
) -> rusqlite::Result<Vec<Waiting>> {
    let (due, id) = after.map_or((i64::MIN, String::new()), |spot| {
        (spot.due.as_microsecond(), spot.id.to_string())
    });
    c.prepare_cached(
        "SELECT q.item_id, q.scheduled_exec_time, s.window_start, s.requested_time, s.deadline
         FROM item_queue q INDEXED BY item_queue_ready
         JOIN slot s ON s.item_type = q.item_type AND s.item_id = q.item_id
         WHERE q.lane = ?1 AND q.item_type = ?2 AND q.queue_status = 'READY'
           AND q.scheduled_exec_time >= ?3
           AND (q.scheduled_exec_time, q.item_id) > (?3, ?4) AND s.generation < ?5
           AND NOT EXISTS (SELECT 1 FROM attempt a
                WHERE a.item_type = q.item_type AND a.item_id = q.item_id)
         ORDER BY q.scheduled_exec_time, q.item_id LIMIT ?6",
    )?
    .query_map(
        params![lane.as_str(), item_type.as_str(), due, id, before, limit],
        waiting_from,
    )?
    .collect()
}

fn waiting_from(row: &Row<'_>) -> rusqlite::Result<Waiting> {
    Ok(Waiting {
        id: ItemId::new(row.get::<_, String>(0)?),
        due: row.get::<_, Us>(1)?.0,
        window: row.get::<_, Us>(2)?.0,
        requested: row.get::<_, Us>(3)?.0,
        deadline: row.get::<_, Option<Us>>(4)?.map(|us| us.0),
    })
}

fn begin(c: &Connection, lane: &LaneName, author: &Author, now: Us) -> StoreResult<i64> {
    let in_force = lanes::in_force(c, lane).map_err(store_error)?;
    let in_force = in_force.ok_or_else(|| StoreError::Invalid(no_such_lane(lane)))?;
    let size = i64::from(in_force.lane.window_size_secs) * 1_000_000;
    let window = now.0.as_microsecond() - now.0.as_microsecond().rem_euclid(size);
    let write = || {
        let generation: i64 = c
            .prepare_cached(
                "UPDATE lane_plan SET generation = generation + 1, replan_since = ?2
                 WHERE lane = ?1 RETURNING generation",
            )?
            .query_row(params![lane.as_str(), now], |row| row.get(0))?;
        // What this window has sent already has used its room.
        c.prepare_cached(
            "INSERT INTO lane_window (lane, generation, window_start, used)
             SELECT ?1, ?2, ?3, count(*) FROM send_log
             WHERE lane = ?1 AND turn_at >= ?3 AND turn_at < ?3 + ?4 HAVING count(*) > 0",
        )?
        .execute(params![lane.as_str(), generation, window, size])?;
        adopt(c, lane, generation)?;
        let detail = format!("lane {lane}, generation {generation}: {}", author.reason);
        write_audit(c, "REPLAN_BEGUN", author, &detail, now)?;
        Ok(generation)
    };
    write().map_err(store_error)
}

/// What is under way keeps its slot, which counts in this generation from here on: before the
/// first item is placed anew, and again later, since some are claimed meanwhile.
fn adopt(c: &Connection, lane: &LaneName, generation: i64) -> rusqlite::Result<()> {
    let windows: Vec<Us> = c
        .prepare_cached(
            "UPDATE slot SET generation = ?2 FROM (
                 SELECT item_type, item_id FROM item_queue INDEXED BY item_queue_claimed
                 WHERE lane = ?1 AND queue_status = 'CLAIMED'
                 UNION ALL
                 SELECT item_type, item_id FROM item_queue INDEXED BY item_queue_running
                 WHERE lane = ?1 AND queue_status = 'DISPATCHED' AND finished_at IS NULL
             ) AS q
             WHERE slot.item_type = q.item_type AND slot.item_id = q.item_id
               AND slot.generation < ?2
             RETURNING window_start",
        )?
        .query_map(params![lane.as_str(), generation], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut count = c.prepare_cached(
        "INSERT INTO lane_window (lane, generation, window_start, used) VALUES (?1, ?2, ?3, 1)
         ON CONFLICT (lane, generation, window_start) DO UPDATE SET used = used + 1",
    )?;
    for window in windows {
        count.execute(params![lane.as_str(), generation, window])?;
    }
    Ok(())
}

fn same_generation(c: &Connection, lane: &LaneName, generation: i64) -> StoreResult<()> {
    let now: Option<i64> = c
        .prepare_cached("SELECT generation FROM lane_plan WHERE lane = ?1")
        .and_then(|mut s| s.query_row([lane.as_str()], |row| row.get(0)).optional())
        .map_err(store_error)?;
    if now == Some(generation) {
        return Ok(());
    }
    Err(StoreError::Invalid(format!(
        "another replan of lane \"{lane}\" has begun"
    )))
}

fn place(
    c: &Connection,
    lane: &LaneName,
    item_type: &ItemType,
    items: Vec<Waiting>,
    margin: Decimal,
    now: Timestamp,
) -> rusqlite::Result<Vec<Replanned>> {
    let Some(in_force) = lanes::in_force(c, lane)? else {
        return Ok(vec![]);
    };
    let mut plan = Plan::of(c, &in_force, margin)?;
    let mut done = Vec::with_capacity(items.len());
    for item in items {
        let from = item.requested.max(now);
        let place = plan.place(from, steady_random(&item.id))?;
        let (window, to) = place.map_or((item.window, item.due), |p| (p.window, p.scheduled));
        let kind = item_type.as_str();
        c.prepare_cached(
            "UPDATE slot SET window_start = ?3, scheduled_time = ?4, generation = ?5
             WHERE item_type = ?1 AND item_id = ?2",
        )?
        .execute(params![
            kind,
            item.id.as_str(),
            Us(window),
            Us(to),
            plan.generation()
        ])?;
        c.prepare_cached(
            "UPDATE item_queue SET scheduled_exec_time = ?3 WHERE item_type = ?1 AND item_id = ?2",
        )?
        .execute(params![kind, item.id.as_str(), Us(to)])?;
        done.push(Replanned { item, to });
    }
    plan.write_back()?;
    Ok(done)
}

fn end(
    c: &Connection,
    lane: &LaneName,
    summary: &str,
    author: &Author,
    now: Us,
) -> rusqlite::Result<()> {
    c.prepare_cached("UPDATE lane_plan SET replan_since = NULL WHERE lane = ?1")?
        .execute([lane.as_str()])?;
    let detail = format!("lane {lane}: {summary} ({})", author.reason);
    write_audit(c, "REPLANNED", author, &detail, now)
}

fn forget(c: &Connection, lane: &LaneName, generation: i64) -> rusqlite::Result<usize> {
    c.prepare_cached(
        "DELETE FROM lane_window WHERE lane = ?1 AND (generation, window_start) IN (
             SELECT generation, window_start FROM lane_window
             WHERE lane = ?1 AND generation < ?2 LIMIT ?3)",
    )?
    .execute(params![lane.as_str(), generation, FORGOTTEN_AT_ONCE])
}

fn recount(c: &Connection, lane: &LaneName, now: Us) -> rusqlite::Result<Recounted> {
    let generation: Option<i64> = c
        .prepare_cached(
            "SELECT generation FROM lane_plan WHERE lane = ?1 AND replan_since IS NULL",
        )?
        .query_row([lane.as_str()], |row| row.get(0))
        .optional()?;
    let Some(generation) = generation else {
        return Ok(Recounted::default());
    };
    let wrong: Vec<(Us, i64, i64)> = c
        .prepare_cached(
            "WITH held AS (
                 SELECT s.window_start, count(*) AS n
                 FROM (SELECT item_type, item_id FROM item_queue INDEXED BY item_queue_ready
                       WHERE lane = ?1 AND queue_status = 'READY'
                       UNION ALL
                       SELECT item_type, item_id FROM item_queue INDEXED BY item_queue_held
                       WHERE lane = ?1 AND queue_status = 'HELD'
                       UNION ALL
                       SELECT item_type, item_id FROM item_queue INDEXED BY item_queue_claimed
                       WHERE lane = ?1 AND queue_status = 'CLAIMED'
                       UNION ALL
                       SELECT item_type, item_id FROM item_queue INDEXED BY item_queue_running
                       WHERE lane = ?1 AND queue_status = 'DISPATCHED' AND finished_at IS NULL) q
                 JOIN slot s ON s.item_type = q.item_type AND s.item_id = q.item_id
                 WHERE s.window_start > ?3 AND s.generation = ?2
                 GROUP BY s.window_start
             ), counted AS (
                 SELECT window_start, used FROM lane_window
                 WHERE lane = ?1 AND generation = ?2 AND window_start > ?3
             )
             SELECT window_start, coalesce(used, 0), coalesce(n, 0)
             FROM held FULL JOIN counted USING (window_start)
             WHERE coalesce(used, 0) <> coalesce(n, 0)",
        )?
        .query_map(params![lane.as_str(), generation, now], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let mut recounted = Recounted::default();
    for (window, used, held) in wrong {
        recounted.add(used, held);
        c.prepare_cached(
            "INSERT INTO lane_window (lane, generation, window_start, used) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (lane, generation, window_start) DO UPDATE SET used = excluded.used",
        )?
        .execute(params![lane.as_str(), generation, window, held])?;
    }
    if recounted.windows > 0 {
        lanes::forget_pointers(c, lane)?;
        let author = Author::new("reconciliation", "counters differed from slots");
        write_audit(
            c,
            "RECOUNTED",
            &author,
            &format!("lane {lane}: {recounted}"),
            now,
        )?;
    }
    Ok(recounted)
}

fn write_audit(
    c: &Connection,
    action: &str,
    author: &Author,
    detail: &str,
    now: Us,
) -> rusqlite::Result<()> {
    let entry = Entry {
        action,
        actor: &author.actor,
        detail,
        ..Entry::default()
    };
    audit(c, now, &entry)
}
