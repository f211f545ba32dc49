//! Calendars: `/admin/calendars/{name}`, and their holidays as a file.

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::routing::{get, put};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tollgate_core::SignedDuration;
use tollgate_core::Timestamp;
use tollgate_core::calendar::{Calendar, CalendarText, read_holidays};
use tollgate_core::id::{CalendarName, LaneName, check_item_id};
use tollgate_core::lane::LaneChange;
use tollgate_core::open_time::OpenTime;
use tollgate_core::ports::{Author, CalendarInForce, SettingKind};

use super::App;
use super::body::{Body, parse, wrong};
use super::error::ApiError;
use super::lanes::{VersionResponse, versions};
use crate::auth::Caller;

/// So many openings are shown, of so much time at most.
const OPENINGS_SHOWN: usize = 10;
const SHOWN_AHEAD: SignedDuration = SignedDuration::from_hours(24 * 366);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PutRequest {
    #[serde(flatten)]
    text: CalendarText,
    reason: Option<String>,
    #[serde(default)]
    confirm: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CalendarResponse {
    name: CalendarName,
    version: i64,
    effective_at: Timestamp,
    #[serde(flatten)]
    text: CalendarText,
    lanes: Vec<LaneName>,
    /// What it means: the next times it is open.
    next_openings: Vec<Opening>,
}

#[derive(Debug, Serialize)]
struct Opening {
    from: Timestamp,
    to: Timestamp,
}

impl App {
    async fn calendar(&self, name: &str) -> Result<CalendarInForce, ApiError> {
        let all = self.store.calendars().await?;
        let found = all
            .into_iter()
            .find(|calendar| calendar.name.as_str() == name);
        found.ok_or_else(|| ApiError::not_found(format!("there is no calendar \"{name}\"")))
    }

    async fn lanes_of(&self, name: &CalendarName) -> Result<Vec<LaneName>, ApiError> {
        let lanes = self.store.lanes().await?.into_iter();
        let attached = lanes.filter(|lane| lane.lane.calendar.as_ref() == Some(name));
        Ok(attached.map(|lane| lane.name).collect())
    }

    async fn told(&self, calendar: CalendarInForce) -> Result<CalendarResponse, ApiError> {
        let now = self.store.now().await?;
        let read = Calendar::read(&calendar.text).map_err(ApiError::invalid)?;
        let open = OpenTime::new(Some(std::sync::Arc::new(read)), None);
        let openings = open.within(now, now + SHOWN_AHEAD).take(OPENINGS_SHOWN);
        Ok(CalendarResponse {
            lanes: self.lanes_of(&calendar.name).await?,
            next_openings: openings
                .map(|s| Opening {
                    from: s.from,
                    to: s.to,
                })
                .collect(),
            name: calendar.name,
            version: calendar.version,
            effective_at: calendar.effective_at,
            text: calendar.text,
        })
    }

    /// Writes a calendar, unless it would strand what waits on its lanes.
    async fn write_calendar(
        &self,
        caller: &Caller,
        name: CalendarName,
        text: CalendarText,
        reason: Option<String>,
        confirm: bool,
    ) -> Result<Json<CalendarResponse>, ApiError> {
        let read = Calendar::read(&text).map_err(ApiError::invalid)?;
        let now = self.store.now().await?;
        let read = read.opening_soon(now).map_err(ApiError::invalid)?;
        if !confirm {
            let read = std::sync::Arc::new(read);
            for lane in self.lanes_of(&name).await? {
                let after = self.planner.lane(&lane, LaneChange::default()).await?;
                let after = after.with_calendar(std::sync::Arc::clone(&read));
                if let Some(why) = self.planner.strands_under(&lane, &after).await? {
                    return Err(ApiError::conflict(why));
                }
            }
        }
        let author = Author::new(caller.name(), reason.unwrap_or_default());
        let calendar = self.store.put_calendar(&name, text, author).await?;
        Ok(Json(self.told(calendar).await?))
    }
}

async fn list(State(app): State<App>) -> Result<Json<Vec<CalendarResponse>>, ApiError> {
    let mut told = vec![];
    for calendar in app.store.calendars().await? {
        told.push(app.told(calendar).await?);
    }
    Ok(Json(told))
}

async fn show(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<CalendarResponse>, ApiError> {
    let calendar = app.calendar(&name).await?;
    Ok(Json(app.told(calendar).await?))
}

async fn write(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<CalendarResponse>, ApiError> {
    check_item_id(&name).map_err(|why| wrong("name", why))?;
    let request: PutRequest = parse(&headers, body)?;
    let name = CalendarName::new(name);
    app.write_calendar(&caller, name, request.text, request.reason, request.confirm)
        .await
}

#[derive(Debug, Deserialize)]
struct HolidaysQuery {
    reason: Option<String>,
    #[serde(default)]
    confirm: bool,
}

/// The calendar's holidays are those of the file, and no others.
async fn holidays(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<HolidaysQuery>,
    body: String,
) -> Result<Json<CalendarResponse>, ApiError> {
    let calendar = app.calendar(&name).await?;
    let text = CalendarText {
        holidays: read_holidays(&body).map_err(ApiError::invalid)?,
        ..calendar.text
    };
    app.write_calendar(&caller, calendar.name, text, query.reason, query.confirm)
        .await
}

async fn history(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<Vec<VersionResponse>>, ApiError> {
    let calendar = app.calendar(&name).await?;
    versions(&app, SettingKind::Calendar, calendar.name.as_str()).await
}

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/admin/calendars", get(list))
        .route("/admin/calendars/{name}", get(show).put(write))
        .route("/admin/calendars/{name}/holidays", put(holidays))
        .route("/admin/calendars/{name}/history", get(history))
}
