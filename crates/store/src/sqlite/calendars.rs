//! Calendars: every version is a setting; lanes name them.

use std::sync::Arc;

use rusqlite::Connection;
use tollgate_core::Timestamp;
use tollgate_core::calendar::{Calendar, CalendarText, no_such_calendar};
use tollgate_core::details::in_one_line;
use tollgate_core::gate::HORIZON;
use tollgate_core::id::CalendarName;
use tollgate_core::ports::{Author, CalendarInForce, Setting, SettingKind, StoreError};

use super::error::Failed;
use super::value::Us;
use super::{lanes, settings};

pub(super) fn put(
    c: &Connection,
    name: &CalendarName,
    text: &CalendarText,
    author: Author,
    now: Timestamp,
) -> Result<CalendarInForce, Failed> {
    let calendar = Calendar::read(text).and_then(|calendar| calendar.opening_soon(now));
    calendar.map_err(|faults| {
        StoreError::Invalid(format!("calendar \"{name}\": {}", in_one_line(&faults)))
    })?;
    let body = serde_json::to_string(text).map_err(|e| StoreError::Bug(e.to_string()))?;
    let (kind, now) = (SettingKind::Calendar, Us(now));
    let setting = settings::put(c, kind, name.as_str(), body, author, now)?;
    for lane in lanes::all(c)? {
        if lane.lane.calendar.as_ref() == Some(name) {
            lanes::forget_pointers(c, &lane.name)?;
        }
    }
    Ok(version(name.clone(), &setting)?)
}

pub(super) fn all(c: &Connection) -> rusqlite::Result<Vec<CalendarInForce>> {
    let mut calendars = vec![];
    for name in settings::names(c, SettingKind::Calendar)? {
        if let Some(setting) = settings::current(c, SettingKind::Calendar, &name)? {
            calendars.push(version(CalendarName::new(name), &setting)?);
        }
    }
    Ok(calendars)
}

fn version(name: CalendarName, setting: &Setting) -> rusqlite::Result<CalendarInForce> {
    Ok(CalendarInForce {
        name,
        version: setting.version,
        text: settings::parse(&setting.body_json)?,
        effective_at: setting.created_at + HORIZON,
    })
}

pub(super) fn in_force(
    c: &Connection,
    name: &CalendarName,
) -> rusqlite::Result<Option<Arc<Calendar>>> {
    let Some(setting) = settings::current(c, SettingKind::Calendar, name.as_str())? else {
        return Ok(None);
    };
    let text: CalendarText = settings::parse(&setting.body_json)?;
    let calendar = Calendar::read(&text).map_err(|faults| {
        rusqlite::Error::FromSqlConversionFailure(
            1,
            rusqlite::types::Type::Text,
            format!("calendar \"{name}\": {}", in_one_line(&faults)).into(),
        )
    })?;
    Ok(Some(Arc::new(calendar)))
}

pub(super) fn must_exist(c: &Connection, name: &CalendarName) -> Result<(), Failed> {
    match settings::current(c, SettingKind::Calendar, name.as_str())? {
        Some(_) => Ok(()),
        None => Err(StoreError::Invalid(no_such_calendar(name)).into()),
    }
}
