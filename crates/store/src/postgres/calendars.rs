//! Calendars: every version is a setting; lanes name them.

use deadpool_postgres::{GenericClient, Transaction};
use tollgate_core::calendar::{Calendar, CalendarText, no_such_calendar};
use tollgate_core::details::in_one_line;
use tollgate_core::gate::HORIZON;
use tollgate_core::id::{CalendarName, LaneName};
use tollgate_core::ports::{Author, CalendarInForce, SettingKind, StoreError, StoreResult};

use super::run::{all, now};
use super::value::Us;
use super::{lanes, settings};

/// The lanes that name the calendar are held in the order of their names, so that no slot and no
/// turn is given by the version that is being replaced.
pub(super) async fn put(
    tx: &Transaction<'_>,
    name: CalendarName,
    text: CalendarText,
    author: Author,
) -> StoreResult<CalendarInForce> {
    const ATTACHED: &str = "SELECT p.lane FROM lane_plan p
         CROSS JOIN LATERAL (SELECT body FROM setting
              WHERE kind = 'lane' AND name = p.lane ORDER BY version DESC LIMIT 1) s
         WHERE s.body::json ->> 'calendar' = $1 ORDER BY p.lane";
    settings::lock(tx, SettingKind::Calendar, name.as_str()).await?;
    let attached: Vec<LaneName> = all(tx, ATTACHED, &[&name.as_str()])
        .await?
        .iter()
        .map(|row| LaneName::new(row.get::<_, String>(0)))
        .collect();
    for lane in &attached {
        lanes::lock(tx, lane).await?;
    }
    let now = now(tx).await?;
    let calendar = Calendar::read(&text).and_then(|calendar| calendar.opening_soon(now.0));
    calendar.map_err(|faults| {
        StoreError::Invalid(format!("calendar \"{name}\": {}", in_one_line(&faults)))
    })?;
    let body = serde_json::to_string(&text).map_err(|e| StoreError::Bug(e.to_string()))?;
    let setting = settings::put(tx, SettingKind::Calendar, name.as_str(), body, author).await?;
    for lane in &attached {
        if let Some(lane) = lanes::lane(tx, lane).await? {
            lanes::forget_pointers(tx, &lane.name, lane.lane.window_size(), now).await?;
        }
    }
    Ok(CalendarInForce {
        name,
        version: setting.version,
        text,
        effective_at: setting.created_at + HORIZON,
    })
}

pub(super) async fn in_force(c: &impl GenericClient) -> StoreResult<Vec<CalendarInForce>> {
    const NEWEST: &str = "SELECT DISTINCT ON (name) name, version, body, created_at FROM setting
         WHERE kind = 'calendar' ORDER BY name, version DESC";
    let rows = all(c, NEWEST, &[]).await?;
    let calendars = rows.iter().map(|row| {
        Ok(CalendarInForce {
            name: CalendarName::new(row.get::<_, String>(0)),
            version: row.get(1),
            text: settings::parse(row.get(2))?,
            effective_at: row.get::<_, Us>(3).0 + HORIZON,
        })
    });
    calendars.collect()
}

pub(super) fn read(body: &str) -> StoreResult<Calendar> {
    let text: CalendarText = settings::parse(body)?;
    Calendar::read(&text)
        .map_err(|faults| StoreError::Bug(format!("a calendar: {}", in_one_line(&faults))))
}

pub(super) async fn must_exist(c: &impl GenericClient, name: &CalendarName) -> StoreResult<()> {
    match settings::current(c, SettingKind::Calendar, name.as_str()).await? {
        Some(_) => Ok(()),
        None => Err(StoreError::Invalid(no_such_calendar(name))),
    }
}
