//! Calendars: every version is a setting; lanes name them.

use tollgate_core::calendar::{Calendar, CalendarText, no_such_calendar};
use tollgate_core::details::in_one_line;
use tollgate_core::gate::HORIZON;
use tollgate_core::id::CalendarName;
use tollgate_core::ports::{
    Author, CalendarInForce, NamedSetting, SettingKind, StoreError, StoreResult,
};

use crate::cold::settings;
use crate::sql::Tx;

/// The lanes that name the calendar are held in the order of their names, so that no slot and no
/// turn is given by the version that is being replaced.
pub(crate) async fn put(
    tx: &Tx,
    name: CalendarName,
    text: CalendarText,
    author: Author,
) -> StoreResult<CalendarInForce> {
    settings::lock(tx, SettingKind::Calendar, name.as_str()).await;
    let mut attached = tx.lanes().await;
    attached.retain(|lane| lane.lane.calendar.as_ref() == Some(&name));
    for lane in &attached {
        super::lock(tx, lane.name.as_str()).await;
    }
    let now = tx.now().await?;
    let calendar = Calendar::read(&text).and_then(|calendar| calendar.opening_soon(now));
    calendar.map_err(|faults| {
        StoreError::Invalid(format!("calendar \"{name}\": {}", in_one_line(&faults)))
    })?;
    let body = serde_json::to_string(&text).map_err(|e| StoreError::Bug(e.to_string()))?;
    let setting = settings::put(tx, SettingKind::Calendar, name.as_str(), body, author).await?;
    for lane in &attached {
        super::forget_pointers(tx, &lane.name, now).await;
    }
    Ok(CalendarInForce {
        name,
        version: setting.version,
        text,
        effective_at: setting.created_at + HORIZON,
    })
}

pub(crate) async fn in_force(tx: &Tx) -> StoreResult<Vec<CalendarInForce>> {
    let newest = settings::named(tx, SettingKind::Calendar, "", u32::MAX).await?;
    let calendar = |NamedSetting { name, setting }| {
        Ok(CalendarInForce {
            name: CalendarName::new(name),
            version: setting.version,
            text: settings::parse(&setting.body_json)?,
            effective_at: setting.created_at + HORIZON,
        })
    };
    newest.into_iter().map(calendar).collect()
}

/// From the body of its setting.
pub(crate) fn read(body: &str) -> StoreResult<Calendar> {
    let text: CalendarText = settings::parse(body)?;
    Calendar::read(&text)
        .map_err(|faults| StoreError::Bug(format!("a calendar: {}", in_one_line(&faults))))
}

pub(super) async fn must_exist(tx: &Tx, name: &CalendarName) -> StoreResult<()> {
    match settings::current(tx, SettingKind::Calendar, name.as_str()).await? {
        Some(_) => Ok(()),
        None => Err(StoreError::Invalid(no_such_calendar(name))),
    }
}
