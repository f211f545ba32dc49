//! Lanes: their versions and their windows.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::Timestamp;
use tollgate_core::calendar::CalendarText;
use tollgate_core::certificate::Certificate;
use tollgate_core::gate::HORIZON;
use tollgate_core::id::{CalendarName, LaneName};
use tollgate_core::lane::{Lane, LaneChange};
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::{
    Author, CalendarInForce, Lanes, SettingKind, StoreError, StoreResult, WindowUse,
};

use super::accounts::audit;
use super::certificate::certify;
use super::error::Failed;
use super::value::Us;
use super::{SqliteStore, calendars, settings, storms};
use crate::audit::Entry;
use crate::urgency::Urgency;
use crate::value::micros;

#[async_trait]
impl Lanes for SqliteStore {
    async fn lane(&self, name: &LaneName) -> StoreResult<Option<LaneInForce>> {
        let name = name.clone();
        self.readers.read(move |c| in_force(c, &name)).await
    }

    async fn lanes(&self) -> StoreResult<Vec<LaneInForce>> {
        self.readers.read(all).await
    }

    async fn change_lane(
        &self,
        name: &LaneName,
        change: LaneChange,
        author: Author,
    ) -> StoreResult<LaneInForce> {
        let (name, clock) = (name.clone(), self.clock.clone());
        let write = move |c: &Connection| change_lane(c, &name, change, author, clock.now());
        self.writer.write(Urgency::Urgent, write).await
    }

    async fn close_lane(&self, name: &LaneName, time: Duration, author: Author) -> StoreResult<()> {
        let (name, clock) = (name.clone(), self.clock.clone());
        let write = move |c: &Connection| {
            close_for(c, &name, time, Some(&author), clock.now_us())?;
            let detail = format!("lane {name} for {time:?}: {}", author.reason);
            let entry = Entry {
                action: "LANE_CLOSED",
                actor: &author.actor,
                detail: &detail,
                ..Entry::default()
            };
            audit(c, Us(clock.now()), &entry)
        };
        self.writer.write(Urgency::Urgent, write).await
    }

    async fn calendars(&self) -> StoreResult<Vec<CalendarInForce>> {
        self.readers.read(calendars::all).await
    }

    async fn put_calendar(
        &self,
        name: &CalendarName,
        text: CalendarText,
        author: Author,
    ) -> StoreResult<CalendarInForce> {
        let (name, clock) = (name.clone(), self.clock.clone());
        let write = move |c: &Connection| calendars::put(c, &name, &text, author, clock.now());
        self.writer.write(Urgency::Urgent, write).await
    }

    async fn windows(
        &self,
        name: &LaneName,
        from: Timestamp,
        limit: u32,
    ) -> StoreResult<Vec<WindowUse>> {
        let name = name.clone();
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT window_start, used FROM lane_window
                 WHERE lane = ?1 AND window_start >= ?2 AND used > 0
                   AND generation = (SELECT generation FROM lane_plan WHERE lane = ?1)
                 ORDER BY window_start LIMIT ?3",
            )?
            .query_map(params![name.as_str(), Us(from), limit], |row| {
                Ok(WindowUse {
                    start: row.get::<_, Us>(0)?.0,
                    used: row.get(1)?,
                })
            })?
            .collect()
        };
        self.readers.read(read).await
    }

    async fn certificate(
        &self,
        name: &LaneName,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<Certificate> {
        let name = name.clone();
        self.readers
            .read(move |c| certify(c, &name, from, to))
            .await
    }
}

fn change_lane(
    c: &Connection,
    name: &LaneName,
    change: LaneChange,
    author: Author,
    now: Timestamp,
) -> Result<LaneInForce, Failed> {
    let before = in_force(c, name)?.map(|lane| lane.lane);
    if change.pause == Some(None) {
        storms::lift(c, name, Us(now))?;
    }
    let changed = Lane::changed(before.as_ref(), change.ordered_at(now))
        .map_err(|why| StoreError::Invalid(format!("lane \"{name}\": {why}")))?;
    if let Some(calendar) = &changed.calendar {
        calendars::must_exist(c, calendar)?;
    }
    let body = serde_json::to_string(&changed).map_err(|e| StoreError::Bug(e.to_string()))?;
    settings::put(c, SettingKind::Lane, name.as_str(), body, author, Us(now))?;
    c.prepare_cached(
        "INSERT INTO lane_plan (lane, generation) VALUES (?1, 0) ON CONFLICT DO NOTHING",
    )?
    .execute([name.as_str()])?;
    let size = changed.window_size();
    let old_size = before.map(|lane| lane.window_size());
    if let Some(old_size) = old_size.filter(|old_size| *old_size != size) {
        rebuild_windows(c, name, old_size, size, Us(now))?;
    }
    forget_pointers(c, name)?;
    let gone = || StoreError::Bug(format!("lane \"{name}\" is not there after its change"));
    Ok(in_force(c, name)?.ok_or_else(gone)?)
}

/// The lane in force.
pub(super) fn in_force(c: &Connection, name: &LaneName) -> rusqlite::Result<Option<LaneInForce>> {
    let Some(setting) = settings::current(c, SettingKind::Lane, name.as_str())? else {
        return Ok(None);
    };
    let lane: Lane = settings::parse(&setting.body_json)?;
    let calendar = match &lane.calendar {
        Some(calendar) => calendars::in_force(c, calendar)?,
        None => None,
    };
    let closing = c
        .prepare_cached(
            "SELECT c.closed_until, c.closed_by, c.closed_why, s.storm_id, s.reason
             FROM lane_cursor c LEFT JOIN storm s ON s.storm_id = c.storm_id WHERE c.lane = ?1",
        )?
        .query_row([name.as_str()], |row| {
            let by: Option<String> = row.get(1)?;
            let why: Option<String> = row.get(2)?;
            let author = by.map(|by| Author::new(by, why.unwrap_or_default()));
            Ok((
                row.get::<_, Option<Us>>(0)?,
                author,
                storms::pause_from(row, 3)?,
            ))
        })
        .optional()?;
    let (closed_until, closed_by, storm) = closing.unwrap_or_default();
    Ok(Some(LaneInForce {
        name: name.clone(),
        version: setting.version,
        lane,
        calendar,
        effective_at: setting.created_at + HORIZON,
        closed_until: closed_until.map(|us| us.0),
        closed_by,
        storm,
    }))
}

pub(super) fn all(c: &Connection) -> rusqlite::Result<Vec<LaneInForce>> {
    let names = settings::names(c, SettingKind::Lane)?.into_iter();
    let lanes = names.map(|name| in_force(c, &LaneName::new(name)));
    lanes.filter_map(Result::transpose).collect()
}

/// No turn until then: the author wants it, or the downstream asked for quiet. A shorter wish never shortens
/// a longer one.
pub(super) fn close_for(
    c: &Connection,
    name: &LaneName,
    time: Duration,
    author: Option<&Author>,
    now: i64,
) -> rusqlite::Result<()> {
    let by = author.map(|author| &author.actor);
    let why = author.map(|author| &author.reason);
    c.prepare_cached(
        "INSERT INTO lane_cursor (lane, closed_until, closed_by, closed_why) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (lane) DO UPDATE
         SET closed_until = excluded.closed_until, closed_by = excluded.closed_by,
             closed_why = excluded.closed_why
         WHERE coalesce(closed_until, 0) < excluded.closed_until",
    )?
    .execute(params![name.as_str(), now + micros(time), by, why])?;
    Ok(())
}

/// Room may have come back anywhere.
pub(super) fn forget_pointers(c: &Connection, name: &LaneName) -> rusqlite::Result<()> {
    c.prepare_cached(
        "UPDATE lane_window SET next_open = NULL WHERE lane = ?1 AND next_open IS NOT NULL",
    )?
    .execute([name.as_str()])?;
    Ok(())
}

/// Future slots keep their times; their windows follow the new size, and the counters are counted
/// anew from the slots, beginning with the window of the old size that reaches into the future.
fn rebuild_windows(
    c: &Connection,
    name: &LaneName,
    old_size: Duration,
    size: Duration,
    now: Us,
) -> rusqlite::Result<()> {
    let (lane, size) = (name.as_str(), micros(size));
    let from = now.0.as_microsecond() - now.0.as_microsecond().rem_euclid(size);
    c.execute(
        "UPDATE slot SET window_start = scheduled_time - (scheduled_time % ?2)
         WHERE lane = ?1 AND scheduled_time >= ?3",
        params![lane, size, from],
    )?;
    let ended = from - micros(old_size);
    c.execute(
        "DELETE FROM lane_window WHERE lane = ?1 AND window_start > ?2
           AND generation = (SELECT generation FROM lane_plan WHERE lane = ?1)",
        params![lane, ended],
    )?;
    c.execute(
        "INSERT INTO lane_window (lane, generation, window_start, used)
         SELECT s.lane, s.generation, s.window_start, count(*)
         FROM lane_plan p
         JOIN slot s ON s.lane = p.lane AND s.generation = p.generation
         JOIN item_queue q ON q.item_type = s.item_type AND q.item_id = s.item_id
         WHERE p.lane = ?1 AND s.window_start > ?2 AND q.queue_status NOT IN ('CANCELLED', 'DEAD')
         GROUP BY s.window_start",
        params![lane, ended],
    )?;
    Ok(())
}
