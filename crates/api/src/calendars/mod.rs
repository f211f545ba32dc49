//! Calendars: `/admin/calendars/{name}`, and their holidays as a file. `body.rs` has a calendar as the API writes it.

mod body;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::SignedDuration;
use tollgate_core::calendar::{Calendar, CalendarText, read_holidays};
use tollgate_core::id::{CalendarName, LaneName, check_item_id};
use tollgate_core::lane::LaneChange;
use tollgate_core::open_time::OpenTime;
use tollgate_core::ports::{CalendarInForce, SettingKind};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::lanes::versions;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::{Changes, Finds, Reads};
use crate::door::auth::Caller;
use crate::request::body::{Body, parse, perhaps_because, text, wrong};
use crate::request::extract::{Path, Query};

/// At most this many openings are shown, and none later than this.
const OPENINGS_SHOWN: usize = 10;
const SHOWN_AHEAD: SignedDuration = SignedDuration::from_hours(24 * 366);

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

    async fn calendar_response(
        &self,
        calendar: CalendarInForce,
    ) -> Result<contract::Calendar, ApiError> {
        let now = self.store.now().await?;
        let read = Calendar::read(&calendar.text).map_err(ApiError::invalid)?;
        let open = OpenTime::new(Some(std::sync::Arc::new(read)), None);
        let openings = open.within(now, now + SHOWN_AHEAD).take(OPENINGS_SHOWN);
        let lanes = self.lanes_of(&calendar.name).await?;
        Ok(contract::Calendar {
            lanes: lanes.iter().map(ToString::to_string).collect(),
            next_openings: openings
                .map(|s| contract::Opening {
                    from: s.from,
                    to: s.to,
                })
                .collect(),
            name: calendar.name.to_string(),
            version: calendar.version,
            effective_at: calendar.effective_at,
            text: contract::CalendarText::of(calendar.text),
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
    ) -> Result<Json<contract::Calendar>, ApiError> {
        let read = Calendar::read(&text).map_err(ApiError::invalid)?;
        let now = self.store.now().await?;
        let read = read.opening_soon(now).map_err(ApiError::invalid)?;
        if !confirm {
            let read = std::sync::Arc::new(read);
            for lane in self.lanes_of(&name).await? {
                let before = self.planner.lane(&lane, LaneChange::default()).await?;
                let after = before.clone().with_calendar(std::sync::Arc::clone(&read));
                if let Some(why) = self.planner.strands_between(&before, &after).await? {
                    return Err(ApiError::unconfirmed(why));
                }
            }
        }
        let author = perhaps_because(caller, reason)?;
        let calendar = self.store.put_calendar(&name, text, author).await?;
        self.acted(caller.name(), "calendar written", name.as_str());
        self.forecaster.forget();
        Ok(Json(self.calendar_response(calendar).await?))
    }
}

/// All calendars.
#[utoipa::path(
    get, path = "/admin/calendars", operation_id = "listCalendars", tag = "calendars",
    responses((status = 200, description = "Sorted by name.", body = [contract::Calendar]), Reads),
)]
async fn list(State(app): State<App>) -> Result<Json<Vec<contract::Calendar>>, ApiError> {
    let mut told = vec![];
    for calendar in app.store.calendars().await? {
        told.push(app.calendar_response(calendar).await?);
    }
    Ok(Json(told))
}

/// One calendar, with its next opening times.
#[utoipa::path(
    get, path = "/admin/calendars/{name}", operation_id = "getCalendar", tag = "calendars",
    params(("name" = String, Path, description = "The calendar's name.", example = "berlin")),
    responses((status = 200, description = "The current calendar.", body = contract::Calendar), Finds),
)]
async fn show(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<contract::Calendar>, ApiError> {
    let calendar = app.calendar(&name).await?;
    Ok(Json(app.calendar_response(calendar).await?))
}

/// Creates or replaces a calendar. It applies to every lane that names it.
#[utoipa::path(
    put, path = "/admin/calendars/{name}", operation_id = "putCalendar", tag = "calendars",
    params(("name" = String, Path, description = "The calendar's name.", example = "berlin")),
    request_body = contract::CalendarChange,
    responses((status = 200, description = "The current calendar.", body = contract::Calendar), Changes),
)]
async fn write(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Calendar>, ApiError> {
    check_item_id(&name).map_err(|why| wrong("name", why))?;
    let request: contract::CalendarChange = parse(&headers, body)?;
    let name = CalendarName::new(name);
    let text = body::read(request.text);
    app.write_calendar(&caller, name, text, request.reason, request.confirm)
        .await
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct HolidaysQuery {
    #[param(min_length = 1, max_length = 500)]
    reason: Option<String>,
    /// Required if the change would leave waiting items without a slot.
    #[serde(default)]
    confirm: bool,
}

/// Replaces the holidays of a calendar with those in a text file: one date and name per line.
#[utoipa::path(
    put, path = "/admin/calendars/{name}/holidays", operation_id = "putHolidays", tag = "calendars",
    params(("name" = String, Path, description = "The calendar's name.", example = "berlin"), HolidaysQuery),
    request_body(content(
        (String = "text/plain", example = "2026-12-25 Christmas"),
        (inline(crate::request::body::BinaryFile) = "application/octet-stream"),
    )),
    responses((status = 200, description = "The current calendar.", body = contract::Calendar), Changes),
)]
async fn holidays(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    Query(query): Query<HolidaysQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Calendar>, ApiError> {
    let body = text(&headers, body)?;
    let calendar = app.calendar(&name).await?;
    let text = CalendarText {
        holidays: read_holidays(&body).map_err(ApiError::invalid)?,
        ..calendar.text
    };
    app.write_calendar(&caller, calendar.name, text, query.reason, query.confirm)
        .await
}

/// Every version of a calendar, newest first.
#[utoipa::path(
    get, path = "/admin/calendars/{name}/history", operation_id = "listCalendarVersions", tag = "calendars",
    params(("name" = String, Path, description = "The calendar's name.", example = "berlin")),
    responses((status = 200, description = "Each with actor and reason.", body = [contract::Version]), Finds),
)]
async fn history(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<Vec<contract::Version>>, ApiError> {
    let calendar = app.calendar(&name).await?;
    versions(&app, SettingKind::Calendar, calendar.name.as_str()).await
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show, write))
        .routes(routes!(holidays))
        .routes(routes!(history))
}
