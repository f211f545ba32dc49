//! The lane in force, as the hot path reads it (what people do with lanes is in `cold::lanes`); its plan, replans, and the
//! counters of its windows.

pub(crate) mod counters;
mod plans;
mod recount;
mod replan;

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::gate::HORIZON;
use tollgate_core::id::LaneName;
use tollgate_core::lane::Lane;
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::{Author, SettingKind};

use crate::cold::lanes::calendars;
use crate::cold::{lanes, settings};
use crate::sql::Dialogue;
use crate::sqlite::connection::error::Failed;
use crate::sqlite::connection::perform::perform;
use crate::sqlite::connection::value::Us;
use crate::sqlite::sends::storms;

/// The lane in force.
pub(super) fn in_force(c: &Connection, name: &LaneName) -> rusqlite::Result<Option<LaneInForce>> {
    let Some((version, body, created_at)) = newest(c, SettingKind::Lane, name.as_str())? else {
        return Ok(None);
    };
    let lane: Lane = settings::parse(&body).map_err(Failed::from)?;
    let calendar = match &lane.calendar {
        Some(calendar) => newest(c, SettingKind::Calendar, calendar.as_str())?,
        None => None,
    };
    let calendar = calendar.map(|(_, body, _)| calendars::read(&body).map(Arc::new));
    let closing = c
        .prepare_cached(
            "SELECT c.closed_until, c.closed_by, c.closed_why, s.storm_id, s.reason,
                    s.began_at
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
        version,
        lane,
        calendar: calendar.transpose().map_err(Failed::from)?,
        effective_at: created_at.0 + HORIZON,
        closed_until: closed_until.map(|us| us.0),
        closed_by,
        storm,
    }))
}

/// Version, body and creation.
fn newest(
    c: &Connection,
    kind: SettingKind,
    name: &str,
) -> rusqlite::Result<Option<(i64, String, Us)>> {
    c.prepare_cached(
        "SELECT version, body, created_at FROM setting
         WHERE kind = ?1 AND name = ?2 ORDER BY version DESC LIMIT 1",
    )?
    .query_row(params![kind.as_str(), name], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })
    .optional()
}

pub(super) fn all(c: &Connection) -> rusqlite::Result<Vec<LaneInForce>> {
    let names: Vec<String> = c
        .prepare_cached("SELECT DISTINCT name FROM setting WHERE kind = 'lane' ORDER BY name")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let names = names.into_iter();
    let lanes = names.map(|name| in_force(c, &LaneName::new(name)));
    lanes.filter_map(Result::transpose).collect()
}

/// The downstream asked for quiet.
pub(super) fn close_for(
    c: &Connection,
    name: &LaneName,
    time: Duration,
    now: Us,
) -> rusqlite::Result<()> {
    let name = name.clone();
    let close = Dialogue::with(move |tx| async move {
        lanes::close_for(&tx, &name, time, None).await;
        Ok(())
    });
    Ok(perform(c, &|| now.0, close)?)
}

pub(super) fn forget_pointers(c: &Connection, name: &LaneName, now: Us) -> rusqlite::Result<()> {
    let name = name.clone();
    let forget = Dialogue::with(move |tx| async move {
        lanes::forget_pointers(&tx, &name, now.0).await;
        Ok(())
    });
    Ok(perform(c, &|| now.0, forget)?)
}
