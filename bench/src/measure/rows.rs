//! The limit of W1 and W4: the rows that admission writes, by plain prepared statements in one
//! transaction. Slots are placed and rows are built while the watch stands still.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use rusqlite::{Connection, params};
use tollgate_core::Timestamp;
use tollgate_core::gate::DEFAULT_MARGIN;
use tollgate_core::open_time::OpenTime;
use tollgate_core::ports::NewItem;
use tollgate_core::slot::{Counter, Place, assign};
use tollgate_core::window::Windows;
use tollgate_domains::payments::item_type;

use super::target;
use crate::sample::Sample;
use crate::stopwatch::Stopwatch;

/// Any time will do; rows are as long with every time of our century.
const CREATED_AT: i64 = 1_800_000_000_000_000;

pub(super) async fn measure(
    dir: &Path,
    batches: impl Iterator<Item = Result<Vec<NewItem>>>,
    count: u32,
) -> Result<Sample> {
    // Opening a store makes the tables and indexes.
    drop(target::open_store(dir).await?);
    let connection = target::connect(dir)?;
    let lane = target::lane()?;
    let windows = Windows::of(&lane, DEFAULT_MARGIN, OpenTime::default());
    let mut counters: BTreeMap<Timestamp, Counter> = BTreeMap::new();

    let mut watch = Stopwatch::default();
    let mut tenths = Vec::new();
    watch.time(|| Ok(connection.execute_batch("BEGIN IMMEDIATE")?))?;
    for batch in batches {
        let mut rows = Vec::new();
        for item in batch? {
            let from = item.requested.context("every item has its time")?;
            let Ok(place) = assign(&windows, lane.spread, from, 0, &mut counters);
            rows.push((item, from, place.context("the lane is always open")?));
        }
        watch.time(|| insert_all(&connection, &rows))?;
        tenths.push(watch.wall());
    }
    watch.time(|| write_counters(&connection, &counters))?;
    watch.time(|| Ok(connection.execute_batch("COMMIT")?))?;

    let sample = watch.sample(count)?;
    drop(connection);
    target::check_rows(dir, "SELECT count(*) FROM item_queue", count)?;
    Ok(Sample {
        commits: Some(1),
        last_over_first: last_over_first(&tenths),
        ..sample
    })
}

/// From the times at which batches of equal size ended; without the commit.
pub(crate) fn last_over_first(ends: &[std::time::Duration]) -> Option<f64> {
    let tenth = ends.len() / 10;
    let first = ends.get(tenth.checked_sub(1)?)?;
    let last = ends
        .last()?
        .checked_sub(*ends.get(ends.len() - tenth - 1)?)?;
    Some(last.as_secs_f64() / first.as_secs_f64())
}

fn insert_all(c: &Connection, rows: &[(NewItem, Timestamp, Place)]) -> Result<()> {
    let kind = item_type();
    let kind = kind.as_str();
    let mut body = c.prepare_cached(
        "INSERT INTO item_body (item_type, item_id, content_hash, body, init_workflow_id)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let mut queue = c.prepare_cached(
        "INSERT INTO item_queue (item_type, item_id, lane, currency, amount_minor, created_at,
             requested_time, window_start, scheduled_time, generation, queue_status, status,
             updated_at, scheduled_exec_time, run, fence, retry_count)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, 'READY', ?10, ?6, ?9, 1, 0, 0)",
    )?;
    for (item, requested, place) in rows {
        let (id, lane, new) = (item.id.as_str(), item.lane.as_str(), &item.record);
        let flow = item.init_flow.as_str();
        body.execute(params![kind, id, new.content_hash, item.body, flow])?;
        queue.execute(params![
            kind,
            id,
            lane,
            new.money.currency.code(),
            new.money.minor,
            CREATED_AT,
            requested.as_microsecond(),
            place.window.as_microsecond(),
            place.scheduled.as_microsecond(),
            new.status
        ])?;
    }
    Ok(())
}

fn write_counters(c: &Connection, counters: &BTreeMap<Timestamp, Counter>) -> Result<()> {
    let mut insert = c.prepare_cached(
        "INSERT INTO lane_window (lane, generation, window_start, used, next_open)
         VALUES (?1, 0, ?2, ?3, ?4)",
    )?;
    let lane = target::lane_name();
    for (window, counter) in counters {
        let next_open = counter.next_open.map(Timestamp::as_microsecond);
        let window = window.as_microsecond();
        insert.execute(params![lane.as_str(), window, counter.used, next_open])?;
    }
    Ok(())
}
