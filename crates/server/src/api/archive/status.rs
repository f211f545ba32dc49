//! `GET /admin/archive/status`: what takes up space, how far the files are behind, and what is wrong.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use tollgate_core::Timestamp;
use tollgate_core::archive::{ArchiveDay, DayState, DayTrouble};
use tollgate_core::id::ItemType;
use tollgate_dispatch::ages_in_force;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::MOST_TROUBLES;
use crate::api::App;
use crate::api::answer::error::ApiError;
use crate::api::contract::refusals::Reads;
use crate::api::contract::words;

/// At most so many tables, the largest.
const MOST_PARTS: usize = 20;

/// Size and state of the archive.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ArchiveStatus)]
struct StatusResponse {
    as_of: Timestamp,
    /// Size of the store, including the archive.
    store_bytes: u64,
    /// Size of the archive in the store.
    archive_bytes: u64,
    /// Whether closed days are exported: `retention.export_dir` is set.
    exports: bool,
    types: Vec<TypeResponse>,
    /// What takes up space in the store, the largest first: tables with their indexes on PostgreSQL, files on SQLite. At
    /// most 20.
    parts: Vec<PartResponse>,
    /// What is wrong, the oldest day first. Empty if every day is in order.
    troubles: Vec<TroubleResponse>,
}

/// The archive of one item type.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ArchivedType)]
struct TypeResponse {
    #[schema(value_type = String, example = "PAYMENT")]
    item_type: ItemType,
    /// Whole days after its end for which an item stays in the hot tables.
    hot_days: u32,
    /// Days after its end for which it stays in the database.
    archive_days: u32,
    /// Acceptance of the oldest item in the hot tables. Items that have not ended stay there however old they are.
    oldest_hot: Option<Timestamp>,
    /// Number of days in the archive.
    days: u64,
    /// Of these, days in files only.
    days_dropped: u64,
    /// Archive lag: closed days that are not exported yet.
    days_to_export: u64,
    /// The oldest of them.
    #[schema(example = "2026-10-16")]
    oldest_to_export: Option<String>,
    /// On PostgreSQL, days ahead that have a partition. Null on SQLite.
    days_ready: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StorePart)]
struct PartResponse {
    #[schema(example = "item_queue")]
    name: String,
    bytes: u64,
}

/// A day that is not in order.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ArchiveTrouble)]
struct TroubleResponse {
    #[schema(example = "2026-10-16")]
    day: String,
    #[schema(value_type = String, example = "PAYMENT")]
    item_type: ItemType,
    #[schema(schema_with = words::archive_step)]
    step: &'static str,
    /// When it failed first.
    since: Timestamp,
    /// One sentence with the day, the reason and what to do.
    what: String,
}

impl From<DayTrouble> for TroubleResponse {
    fn from(trouble: DayTrouble) -> Self {
        Self {
            what: trouble.sentence(),
            day: trouble.day.to_string(),
            item_type: trouble.item_type,
            step: trouble.step.as_str(),
            since: trouble.since,
        }
    }
}

/// Sizes, the oldest hot items, days that are not exported yet, and what is wrong with days of the archive.
#[utoipa::path(
    get, path = "/admin/archive/status", operation_id = "getArchiveStatus", tag = "archive",
    responses((status = 200, description = "The archive now.", body = StatusResponse), Reads),
)]
async fn status(State(app): State<App>) -> Result<Json<StatusResponse>, ApiError> {
    let store = &app.store;
    let names: Vec<ItemType> = app
        .retention
        .iter()
        .map(|of| of.archived.item_type.clone())
        .collect();
    let sizes = store.archive_sizes(&names).await?;
    let mut types = vec![];
    for item_type in names {
        let oldest = sizes.oldest_hot.iter().find(|(name, _)| *name == item_type);
        let oldest = oldest.map(|(_, at)| *at);
        types.push(app.type_status(item_type, oldest).await?);
    }
    let part = |(name, bytes)| PartResponse { name, bytes };
    let parts = store.store_parts().await?.into_iter();
    let troubles = store.day_troubles(MOST_TROUBLES).await?;
    Ok(Json(StatusResponse {
        as_of: store.now().await?,
        store_bytes: sizes.store_bytes,
        archive_bytes: sizes.archive_bytes,
        exports: app.exports.has_folder(),
        types,
        parts: parts.take(MOST_PARTS).map(part).collect(),
        troubles: troubles.into_iter().map(TroubleResponse::from).collect(),
    }))
}

impl App {
    async fn type_status(
        &self,
        item_type: ItemType,
        oldest_hot: Option<Timestamp>,
    ) -> Result<TypeResponse, ApiError> {
        let store = &self.store;
        let configured = self.retention_of(&item_type)?.archived.ages;
        let ages = ages_in_force(&**store, &item_type, configured).await?.ages;
        let today = ArchiveDay::of(store.now().await?);
        let states = store.day_states(&item_type).await?;
        let of = |state: DayState| states.iter().find(|(found, ..)| *found == state);
        let days = |state: DayState| of(state).map_or(0, |(_, days, _)| *days);
        Ok(TypeResponse {
            hot_days: ages.hot_days,
            archive_days: ages.archive_days,
            oldest_hot,
            days: states.iter().map(|(_, days, _)| days).sum(),
            days_dropped: days(DayState::Dropped),
            days_to_export: days(DayState::Closed),
            oldest_to_export: of(DayState::Closed).map(|(_, _, first)| first.to_string()),
            days_ready: store
                .days_ready(&item_type, today.before(ages.hot_days))
                .await?,
            item_type,
        })
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(status))
}
