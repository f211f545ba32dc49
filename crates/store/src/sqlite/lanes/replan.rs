//! A replan, step by step: a new generation of the lane's plan, in which everything that waits is
//! placed anew.

use rusqlite::{Connection, OptionalExtension, params};
use rust_decimal::Decimal;
use tollgate_core::Timestamp;
use tollgate_core::id::{ItemType, LaneName};
use tollgate_core::lane_in_force::no_such_lane;
use tollgate_core::ports::{Author, Replanned, StoreError, Waiting};
use tollgate_core::slot::steady_random;

use super::counters::Plan;
use crate::audit::Entry;
use crate::replan::{FORGOTTEN_AT_ONCE, another_replan};
use crate::sqlite::accounts::audit;
use crate::sqlite::connection::error::Failed;
use crate::sqlite::connection::value::Us;

pub(super) fn begin(
    c: &Connection,
    lane: &LaneName,
    author: &Author,
    now: Us,
) -> Result<i64, Failed> {
    let in_force = super::in_force(c, lane)?;
    let in_force = in_force.ok_or_else(|| StoreError::Invalid(no_such_lane(lane)))?;
    let size = i64::from(in_force.lane.window_size_secs) * 1_000_000;
    let window = now.0.as_microsecond() - now.0.as_microsecond().rem_euclid(size);
    let generation: i64 = c
        .prepare_cached(
            "UPDATE lane_plan SET generation = generation + 1, replan_since = ?2
             WHERE lane = ?1 RETURNING generation",
        )?
        .query_row(params![lane.as_str(), now], |row| row.get(0))?;
    // What this window has sent already has used its room.
    c.prepare_cached(
        "INSERT INTO lane_window (lane, generation, window_start, used)
         SELECT ?1, ?2, ?3, count(*) FROM attempt
         WHERE lane = ?1 AND turn_at >= ?3 AND turn_at < ?3 + ?4 HAVING count(*) > 0",
    )?
    .execute(params![lane.as_str(), generation, window, size])?;
    adopt(c, lane, generation)?;
    let detail = format!("lane {lane}, generation {generation}: {}", author.reason);
    write_audit(c, "REPLAN_BEGUN", author, &detail, now)?;
    Ok(generation)
}

/// What is under way keeps its slot, which counts in this generation from here on: before the
/// first item is placed anew, and again later, since some are claimed meanwhile.
pub(super) fn adopt(c: &Connection, lane: &LaneName, generation: i64) -> rusqlite::Result<()> {
    let windows: Vec<Us> = c
        .prepare_cached(
            "UPDATE item_queue SET generation = ?2 FROM (
                 SELECT item_type, item_id FROM item_queue INDEXED BY item_queue_claimed
                 WHERE lane = ?1 AND queue_status = 'CLAIMED'
                 UNION ALL
                 SELECT item_type, item_id FROM item_queue INDEXED BY item_queue_running
                 WHERE lane = ?1 AND queue_status = 'DISPATCHED' AND finished_at IS NULL
             ) AS q
             WHERE item_queue.item_type = q.item_type AND item_queue.item_id = q.item_id
               AND item_queue.generation < ?2
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

pub(super) fn same_generation(
    c: &Connection,
    lane: &LaneName,
    generation: i64,
) -> Result<(), Failed> {
    let now: Option<i64> = c
        .prepare_cached("SELECT generation FROM lane_plan WHERE lane = ?1")?
        .query_row([lane.as_str()], |row| row.get(0))
        .optional()?;
    if now == Some(generation) {
        return Ok(());
    }
    Err(another_replan(lane).into())
}

pub(super) fn place(
    c: &Connection,
    lane: &LaneName,
    item_type: &ItemType,
    items: Vec<Waiting>,
    margin: Decimal,
    now: Timestamp,
) -> rusqlite::Result<Vec<Replanned>> {
    let Some(in_force) = super::in_force(c, lane)? else {
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
            "UPDATE item_queue SET window_start = ?3, scheduled_time = ?4, generation = ?5,
                    scheduled_exec_time = ?4
             WHERE item_type = ?1 AND item_id = ?2",
        )?
        .execute(params![
            kind,
            item.id.as_str(),
            Us(window),
            Us(to),
            plan.generation()
        ])?;
        done.push(Replanned { item, to });
    }
    plan.write_back()?;
    Ok(done)
}

pub(super) fn end(
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

pub(super) fn forget(c: &Connection, lane: &LaneName, generation: i64) -> rusqlite::Result<usize> {
    c.prepare_cached(
        "DELETE FROM lane_window WHERE lane = ?1 AND (generation, window_start) IN (
             SELECT generation, window_start FROM lane_window
             WHERE lane = ?1 AND generation < ?2 LIMIT ?3)",
    )?
    .execute(params![lane.as_str(), generation, FORGOTTEN_AT_ONCE])
}

pub(super) fn write_audit(
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
