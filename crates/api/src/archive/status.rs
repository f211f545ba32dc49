//! `GET /admin/archive/status`: what takes up space, how far the files are behind, and what is wrong.

use axum::Json;
use axum::extract::State;
use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::archive::{ArchiveDay, DayState, DayTrouble};
use tollgate_core::id::ItemType;
use tollgate_dispatch::ages_in_force;
use tollgate_operations::archive::Overdue;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::MOST_TROUBLES;
use crate::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::Reads;

/// At most so many tables, the largest.
const MOST_PARTS: usize = 20;

impl Of<DayTrouble> for contract::ArchiveTrouble {
    fn of(trouble: DayTrouble) -> Self {
        Self {
            what: trouble.sentence(),
            day: trouble.day.to_string(),
            item_type: trouble.item_type.to_string(),
            step: trouble.step.as_str().to_owned(),
            since: trouble.since,
        }
    }
}

/// Sizes, the oldest hot items, days that are not exported yet, and problems with days of the archive.
#[utoipa::path(
    get, path = "/admin/archive/status", operation_id = "getArchiveStatus", tag = "archive",
    responses((status = 200, description = "The archive now.", body = contract::ArchiveStatus), Reads),
)]
async fn status(State(app): State<App>) -> Result<Json<contract::ArchiveStatus>, ApiError> {
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
    let part = |(name, bytes)| contract::StorePart { name, bytes };
    let parts = store.store_parts().await?.into_iter();
    let troubles = store.day_troubles(MOST_TROUBLES).await?;
    let overdue = app.exports.overdue(&app.retention).await?;
    Ok(Json(contract::ArchiveStatus {
        as_of: store.now().await?,
        store_bytes: sizes.store_bytes,
        archive_bytes: sizes.archive_bytes,
        exports: app.exports.has_folder(),
        types,
        parts: parts.take(MOST_PARTS).map(part).collect(),
        troubles: troubles
            .into_iter()
            .map(contract::ArchiveTrouble::of)
            .collect(),
        overdue: overdue.iter().map(Overdue::sentence).collect(),
    }))
}

impl App {
    async fn type_status(
        &self,
        item_type: ItemType,
        oldest_hot: Option<Timestamp>,
    ) -> Result<contract::ArchivedType, ApiError> {
        let store = &self.store;
        let configured = self.retention_of(&item_type)?.archived.ages;
        let ages = ages_in_force(&**store, &item_type, configured).await?.ages;
        let today = ArchiveDay::of(store.now().await?);
        let states = store.day_states(&item_type).await?;
        let of = |state: DayState| states.iter().find(|(found, ..)| *found == state);
        let days = |state: DayState| of(state).map_or(0, |(_, days, _)| *days);
        Ok(contract::ArchivedType {
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
            item_type: item_type.to_string(),
        })
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(status))
}
