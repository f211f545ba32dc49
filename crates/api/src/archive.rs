//! `/admin/archive`: days of ended items, in the database and in files.

mod items;
mod status;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::archive::{ArchiveDay, DayState, DayStep, DaySum, DayTrouble, DayView};
use tollgate_core::id::ItemType;
use tollgate_core::ports::{Author, RestoredFor};
use tollgate_operations::archive::{ArchiveError, Restored, TypeDay};
use tollgate_operations::item_types;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::accounts::amount;
use super::answer::codes::Code;
use super::answer::error::ApiError;
use super::answer::of::Of;
use super::contract::refusals::{Changes, Finds, Reads};
use super::payments::changes::Because;
use super::request::body::{Body, author, parse, wrong};
use super::request::extract::{Path, Query};
use crate::door::auth::Caller;

const DEFAULT_DAYS: u32 = 100;
const MAX_DAYS: u32 = 1000;
/// Days in trouble that are looked at.
const MOST_TROUBLES: u32 = 1000;
/// After each step of a move that a person has asked for.
const REST: Duration = Duration::from_millis(5);

impl From<ArchiveError> for ApiError {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::NotFound(why) => Self::not_found(why),
            ArchiveError::Conflict(why) | ArchiveError::Busy(why) => Self::conflict(why),
            ArchiveError::Mismatch(why) => Self::conflict(why).coded(Code::ArchiveMismatch),
            // The disk is the operator's, and so is this address: the reason is told.
            ArchiveError::Disk(why) => Self::new(StatusCode::SERVICE_UNAVAILABLE, why),
            ArchiveError::Store(error) => error.into(),
        }
    }
}

impl Of<DaySum> for contract::ArchivedTotal {
    fn of(sum: DaySum) -> Self {
        Self {
            amount: amount(&sum.currency, sum.amount_minor),
            status: sum.status,
            currency: sum.currency,
            count: sum.count,
        }
    }
}

impl Of<(DayView, &[DayTrouble])> for contract::ArchivedDay {
    fn of((view, troubles): (DayView, &[DayTrouble])) -> Self {
        let is_this = |it: &&DayTrouble| it.item_type == view.item_type && it.day == view.day;
        let told = |it: &DayTrouble| format!("{}: {}", it.since, it.sentence());
        let troubles: Vec<String> = troubles.iter().filter(is_this).map(told).collect();
        let count = view.count();
        let (file, sha256, exported_at) = match view.export {
            Some(export) => (Some(export.file), Some(export.digest), Some(export.at)),
            None => (None, None, None),
        };
        let totals = view.sums.into_iter().map(contract::ArchivedTotal::of);
        Self {
            day: view.day.to_string(),
            item_type: view.item_type.to_string(),
            state: view.state.as_str().to_owned(),
            count,
            totals: totals.collect(),
            file,
            sha256,
            exported_at,
            dropped_at: view.dropped_at,
            restored_at: view.restored_at,
            trouble: (!troubles.is_empty()).then(|| troubles.join("; ")),
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Only days of this item type.
    #[param(example = "PAYMENT")]
    item_type: Option<String>,
    /// Only days after this one.
    #[param(example = "2026-10-16")]
    after: Option<String>,
    /// Page size in days. Default: 100, maximum: 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// One item type, or all.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct TypeQuery {
    /// Only this item type. Default: all.
    #[param(example = "PAYMENT")]
    item_type: Option<String>,
}

/// Lists the days of the archive, oldest first, with their totals and files.
#[utoipa::path(
    get, path = "/admin/archive", operation_id = "listArchive", tag = "archive",
    params(ListQuery),
    responses((status = 200, description = "One page.", body = contract::ArchivedDayList), Reads),
)]
async fn list(
    State(app): State<App>,
    Query(query): Query<ListQuery>,
) -> Result<Json<contract::ArchivedDayList>, ApiError> {
    let limit = query.limit.unwrap_or(DEFAULT_DAYS);
    if !(1..=MAX_DAYS).contains(&limit) {
        return Err(wrong("limit", format!("must be between 1 and {MAX_DAYS}")));
    }
    let after = query
        .after
        .as_deref()
        .map(|it| day("after", it))
        .transpose()?;
    let mut days = vec![];
    for item_type in types(query.item_type)? {
        days.extend(app.store.archived_days(&item_type, after, limit).await?);
    }
    days.sort_by(|one, other| (one.day, &one.item_type).cmp(&(other.day, &other.item_type)));
    // Whole days: the next page begins after the last one.
    let mut distinct: Vec<ArchiveDay> = days.iter().map(|view| view.day).collect();
    distinct.dedup();
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let last = distinct.get(most - 1).copied();
    days.retain(|view| last.is_none_or(|last| view.day <= last));
    let troubles = app.store.day_troubles(MOST_TROUBLES).await?;
    let told = |view| contract::ArchivedDay::of((view, &*troubles));
    Ok(Json(contract::ArchivedDayList {
        days: days.into_iter().map(told).collect(),
        next: last.map(|last| last.to_string()),
    }))
}

/// Shows one day of the archive, for every item type.
#[utoipa::path(
    get, path = "/admin/archive/{day}", operation_id = "getArchivedDay", tag = "archive",
    params(("day" = String, Path, description = "UTC day.", example = "2026-10-16"), TypeQuery),
    responses((status = 200, description = "The day.", body = contract::ArchivedDayList), Finds),
)]
async fn show(
    State(app): State<App>,
    Path(of): Path<String>,
    Query(query): Query<TypeQuery>,
) -> Result<Json<contract::ArchivedDayList>, ApiError> {
    app.day_shown(&type_days(&of, query)?).await
}

/// Reads the complete exported files of a day and compares them with their manifests and with the database.
///
/// 409 (`archive_mismatch`) names the first difference. Changes nothing.
#[utoipa::path(
    post, path = "/admin/archive/{day}/verify", operation_id = "verifyArchivedDay", tag = "archive",
    params(("day" = String, Path, description = "UTC day.", example = "2026-10-16"), TypeQuery),
    responses((status = 200, description = "The files are intact.", body = contract::VerifiedDay), Changes),
)]
async fn verify(
    State(app): State<App>,
    Path(of): Path<String>,
    Query(query): Query<TypeQuery>,
) -> Result<Json<contract::VerifiedDay>, ApiError> {
    let day = day("day", &of)?.to_string();
    let mut files = vec![];
    for of in app.present(type_days(&of, query)?).await? {
        let verified = app.exports.verify(&of).await;
        let verified = app.exports.noted(&of, DayStep::Verify, verified).await;
        app.needs_you.forget();
        let verified = verified?;
        files.push(contract::VerifiedExport {
            item_type: of.item_type.to_string(),
            file: verified.manifest.file,
            sha256: verified.manifest.sha256,
            lines: verified.manifest.lines,
            compared_with_database: verified.with_database,
        });
    }
    Ok(Json(contract::VerifiedDay { day, files }))
}

/// Exports a day to the folder `retention.export_dir`: one compressed file and one manifest per item type.
///
/// The day must be closed. Each file is read back and compared with the database. Repeating the request changes nothing.
/// Without `itemType`, types whose day is in files only are skipped, and all other types are exported even if one of them fails;
/// the error then names the first failure.
#[utoipa::path(
    post, path = "/admin/archive/{day}/export", operation_id = "exportArchivedDay", tag = "archive",
    params(("day" = String, Path, description = "UTC day.", example = "2026-10-16"), TypeQuery),
    request_body = Because,
    responses((status = 200, description = "The exported day.", body = contract::ArchivedDayList), Changes),
)]
async fn export(
    State(app): State<App>,
    caller: Caller,
    Path(of): Path<String>,
    Query(query): Query<TypeQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::ArchivedDayList>, ApiError> {
    let by = because(&caller, &headers, body)?;
    let all = app.present(type_days(&of, query)?).await?;
    let mut refused = None;
    for of in &app.in_database(&all).await? {
        let exported = app.exports.export(of, &by).await;
        let exported = app.exports.noted(of, DayStep::Export, exported).await;
        app.needs_you.forget();
        refused = refused.or(exported.err());
    }
    if let Some(refused) = refused {
        return Err(refused.into());
    }
    app.acted(caller.name(), "archive exported", &of);
    app.day_shown(&all).await
}

/// Restores a day from its files into the archive of the database, where all queries find it again.
///
/// Allowed if the day is in files only, or if it is exported and the database has lost some of its items; the remaining items stay.
/// A file is checked completely before its first line is written. 409 if the database has one of the ids with different
/// content, or if it has the whole day already. The day stays for at least `retention.restored_days` days. A repeated
/// request gets 409 and changes nothing.
#[utoipa::path(
    post, path = "/admin/archive/{day}/restore", operation_id = "restoreArchivedDay", tag = "archive",
    params(("day" = String, Path, description = "UTC day.", example = "2026-10-16"), TypeQuery),
    request_body = Because,
    responses((status = 200, description = "The restored day.", body = contract::ArchivedDayList), Changes),
)]
async fn restore(
    State(app): State<App>,
    caller: Caller,
    Path(of): Path<String>,
    Query(query): Query<TypeQuery>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::ArchivedDayList>, ApiError> {
    let by = because(&caller, &headers, body)?;
    let all = app.present(type_days(&of, query)?).await?;
    let mut there = vec![];
    for of in &all {
        // It reads the file whole before it writes the first line.
        let restored = app.exports.restore(of, RestoredFor::Reading, &by);
        let restored = match restored.await {
            // No file was looked at.
            Ok(Restored::NeverGone) => Restored::NeverGone,
            restored => {
                let restored = app.exports.noted(of, DayStep::Verify, restored).await;
                app.needs_you.forget();
                restored?
            }
        };
        there.extend(restored.why_not(of));
    }
    if there.len() == all.len() {
        let there = there.join(", ");
        return Err(ApiError::conflict(format!("{there}; nothing was restored")));
    }
    app.acted(caller.name(), "archive restored", &of);
    app.day_shown(&all).await
}

/// Runs an archive round now: moves ended items to the archive, exports closed days, and drops from the database days that are
/// older than `archive_days`.
///
/// A day is dropped only after its file has been read back and every line matches the database.
#[utoipa::path(
    post, path = "/admin/archive/run", operation_id = "runArchive", tag = "archive",
    request_body = Because,
    responses((status = 200, description = "Result of the round.", body = contract::ArchiveRound), Changes),
)]
async fn run(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::ArchiveRound>, ApiError> {
    let by = because(&caller, &headers, body)?;
    let moved = app.archiver.round(REST).await?;
    let round = app.export_upkeep.round(&by).await?;
    app.acted(caller.name(), "archive run", "all days");
    Ok(Json(contract::ArchiveRound {
        moved,
        exported: round.exported,
        dropped: round.dropped,
        troubles: round.troubles,
        skipped: round.skipped,
    }))
}

impl App {
    /// Those that the store or the folder knows. None is an error: a mistyped day must not look like a success.
    async fn present(&self, all: Vec<TypeDay>) -> Result<Vec<TypeDay>, ApiError> {
        let mut present = vec![];
        let (mut day, single) = (String::new(), all.len() == 1);
        for of in all {
            day = of.day.to_string();
            if single || self.exports.is_present(&of).await? {
                present.push(of);
            }
        }
        if present.is_empty() {
            return Err(nothing_on(&day));
        }
        Ok(present)
    }

    /// Those that can be exported. All of them if none can, so that the answer says why.
    async fn in_database(&self, all: &[TypeDay]) -> Result<Vec<TypeDay>, ApiError> {
        let mut found = vec![];
        for of in all {
            let day = self.store.archived_day(&of.item_type, of.day).await?;
            if day.is_some_and(|day| day.state != DayState::Dropped) {
                found.push(of.clone());
            }
        }
        if found.is_empty() {
            return Ok(all.to_vec());
        }
        Ok(found)
    }

    async fn day_shown(
        &self,
        all: &[TypeDay],
    ) -> Result<Json<contract::ArchivedDayList>, ApiError> {
        let mut days = vec![];
        let troubles = self.store.day_troubles(MOST_TROUBLES).await?;
        for of in all {
            let found = self.store.archived_day(&of.item_type, of.day).await?;
            days.extend(found.map(|view| contract::ArchivedDay::of((view, &*troubles))));
        }
        if days.is_empty() {
            let day = all.first().map(|of| of.day.to_string());
            return Err(nothing_on(&day.unwrap_or_default()));
        }
        Ok(Json(contract::ArchivedDayList { days, next: None }))
    }
}

fn nothing_on(day: &str) -> ApiError {
    ApiError::not_found(format!("the archive has no items that ended on {day}"))
}

fn because(caller: &Caller, headers: &HeaderMap, body: Body) -> Result<Author, ApiError> {
    author(caller, parse::<Because>(headers, body)?.reason)
}

fn day(field: &str, text: &str) -> Result<ArchiveDay, ApiError> {
    text.parse().map_err(|why: String| wrong(field, why))
}

fn types(asked: Option<String>) -> Result<Vec<ItemType>, ApiError> {
    let all = item_types().map(|(item_type, _)| item_type);
    let Some(asked) = asked else {
        return Ok(all.to_vec());
    };
    let names: Vec<&str> = all.iter().map(ItemType::as_str).collect();
    let what = format!("must be one of {}", names.join(", "));
    let found = all.iter().find(|item_type| item_type.as_str() == asked);
    Ok(vec![found.cloned().ok_or_else(|| wrong("itemType", what))?])
}

fn type_days(of: &str, query: TypeQuery) -> Result<Vec<TypeDay>, ApiError> {
    let day = day("day", of)?;
    let of = |item_type| TypeDay { item_type, day };
    Ok(types(query.item_type)?.into_iter().map(of).collect())
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(run))
        .routes(routes!(verify))
        .routes(routes!(export))
        .routes(routes!(restore))
        .merge(items::router())
        .merge(status::router())
}
