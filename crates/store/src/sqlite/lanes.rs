//! Lanes: their versions, their windows, and the proof of their rate.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::Timestamp;
use tollgate_core::certificate::{Certificate, LimitInForce, WorstSecond};
use tollgate_core::gate::HORIZON;
use tollgate_core::id::LaneName;
use tollgate_core::lane::{Lane, LaneChange};
use tollgate_core::ports::{
    Author, LaneVersion, Lanes, Setting, SettingKind, StoreError, StoreResult, WindowUse,
};

use super::SqliteStore;
use super::error::store_error;
use super::settings;
use super::value::{Us, micros, until};
use super::writer::Urgency;

#[async_trait]
impl Lanes for SqliteStore {
    async fn lane(&self, name: &LaneName) -> StoreResult<Option<LaneVersion>> {
        let (name, now) = (name.clone(), self.clock.now_us());
        self.readers.read(move |c| version(c, name, now)).await
    }

    async fn lanes(&self) -> StoreResult<Vec<LaneVersion>> {
        let now = self.clock.now_us();
        self.readers
            .read(move |c| {
                let names = settings::names(c, SettingKind::Lane)?;
                let versions = names
                    .into_iter()
                    .map(|name| version(c, LaneName::new(name), now));
                versions.filter_map(Result::transpose).collect()
            })
            .await
    }

    async fn change_lane(
        &self,
        name: &LaneName,
        change: LaneChange,
        author: Author,
    ) -> StoreResult<LaneVersion> {
        let (name, clock) = (name.clone(), self.clock.clone());
        let write = move |c: &Connection| {
            let now = Us(clock.now());
            let current = lane(c, &name)?;
            let changed = Lane::changed(current.as_ref(), change)
                .map_err(|why| StoreError::Invalid(format!("lane \"{name}\": {why}")))?;
            let body =
                serde_json::to_string(&changed).map_err(|e| StoreError::Bug(e.to_string()))?;
            let setting = settings::put(c, SettingKind::Lane, name.as_str(), body, author, now)
                .map_err(store_error)?;
            if current.is_some_and(|lane| lane.window_size_secs != changed.window_size_secs) {
                rebuild_windows(c, &name, changed.window_size(), now).map_err(store_error)?;
            }
            forget_pointers(c, &name).map_err(store_error)?;
            let closed_for = closed_for(c, &name, now.0.as_microsecond()).map_err(store_error)?;
            Ok(LaneVersion {
                name,
                version: setting.version,
                lane: changed,
                effective_at: now.0 + HORIZON,
                closed_for,
            })
        };
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
                 WHERE lane = ?1 AND window_start >= ?2 ORDER BY window_start LIMIT ?3",
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

/// The lane in force, inside a transaction.
pub(super) fn lane(c: &Connection, name: &LaneName) -> StoreResult<Option<Lane>> {
    let setting = settings::current(c, SettingKind::Lane, name.as_str()).map_err(store_error)?;
    setting
        .map(|setting| parse(&setting).map_err(store_error))
        .transpose()
}

fn parse(setting: &Setting) -> rusqlite::Result<Lane> {
    serde_json::from_str(&setting.body_json).map_err(|e| {
        rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, e.into())
    })
}

fn version(c: &Connection, name: LaneName, now: i64) -> rusqlite::Result<Option<LaneVersion>> {
    let Some(setting) = settings::current(c, SettingKind::Lane, name.as_str())? else {
        return Ok(None);
    };
    Ok(Some(LaneVersion {
        lane: parse(&setting)?,
        version: setting.version,
        effective_at: setting.created_at + HORIZON,
        closed_for: closed_for(c, &name, now)?,
        name,
    }))
}

fn closed_for(c: &Connection, name: &LaneName, now: i64) -> rusqlite::Result<Option<Duration>> {
    let left = closed_until(c, name)?.map(|then| until(now, then));
    Ok(left.filter(|left| !left.is_zero()))
}

pub(super) fn closed_until(c: &Connection, name: &LaneName) -> rusqlite::Result<Option<i64>> {
    let row = c
        .prepare_cached("SELECT closed_until FROM lane_cursor WHERE lane = ?1")?
        .query_row([name.as_str()], |row| row.get(0))
        .optional()?;
    Ok(row.flatten())
}

/// The downstream asked for quiet: no turn until then. A shorter wish never shortens a longer one.
pub(super) fn close_for(
    c: &Connection,
    name: &LaneName,
    time: Duration,
    now: i64,
) -> rusqlite::Result<()> {
    c.prepare_cached(
        "INSERT INTO lane_cursor (lane, closed_until) VALUES (?1, ?2)
         ON CONFLICT (lane) DO UPDATE
         SET closed_until = max(coalesce(closed_until, 0), excluded.closed_until)",
    )?
    .execute(params![name.as_str(), now + micros(time)])?;
    Ok(())
}

/// Room may have come back anywhere.
fn forget_pointers(c: &Connection, name: &LaneName) -> rusqlite::Result<()> {
    c.prepare_cached(
        "UPDATE lane_window SET next_open = NULL WHERE lane = ?1 AND next_open IS NOT NULL",
    )?
    .execute([name.as_str()])?;
    Ok(())
}

/// Slots keep their times; the windows of future ones follow the new size, and the counters are
/// counted anew from the slots.
fn rebuild_windows(
    c: &Connection,
    name: &LaneName,
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
    c.execute("DELETE FROM lane_window WHERE lane = ?1", [lane])?;
    c.execute(
        "INSERT INTO lane_window (lane, window_start, used)
         SELECT lane, window_start, count(*) FROM slot WHERE lane = ?1 GROUP BY window_start",
        [lane],
    )?;
    Ok(())
}

fn certify(
    c: &Connection,
    name: &LaneName,
    from: Timestamp,
    to: Timestamp,
) -> rusqlite::Result<Certificate> {
    let mut worst = WorstSecond::default();
    let (mut first_send, mut last_send) = (None, None);
    let mut log = c.prepare_cached(
        "SELECT turn_at FROM send_log WHERE lane = ?1 AND turn_at >= ?2 AND turn_at < ?3
         ORDER BY turn_at",
    )?;
    for turn in log.query_map(params![name.as_str(), Us(from), Us(to)], |row| {
        row.get::<_, Us>(0)
    })? {
        let turn = turn?.0;
        first_send.get_or_insert(turn);
        last_send = Some(turn);
        worst.add(turn);
    }
    Ok(Certificate {
        lane: name.to_string(),
        from,
        to,
        sends: worst.sends(),
        first_send,
        last_send,
        worst_second: worst.worst(),
        limits: limits_in_force(c, name, from, to)?,
    })
}

/// The limits between two times, oldest first: those set in between, and the one set before.
fn limits_in_force(
    c: &Connection,
    name: &LaneName,
    from: Timestamp,
    to: Timestamp,
) -> rusqlite::Result<Vec<LimitInForce>> {
    let mut limits = Vec::new();
    for setting in settings::history(c, SettingKind::Lane, name.as_str(), u32::MAX)? {
        if setting.created_at >= to {
            continue;
        }
        limits.push(LimitInForce {
            version: setting.version,
            since: setting.created_at,
            max_per_second: parse(&setting)?.max_per_second,
        });
        if setting.created_at <= from {
            break;
        }
    }
    limits.reverse();
    Ok(limits)
}
