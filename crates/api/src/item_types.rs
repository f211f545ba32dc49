//! `/admin/item-types`: how items are dispatched, changed while running.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use tollgate_contract as contract;
use tollgate_core::id::ItemType;
use tollgate_core::item_type::{ItemTypeChange, is_queue_name};
use tollgate_core::ports::SettingKind;
use tollgate_dispatch::{ItemTypeInForce, change_item_type, item_type};
use tollgate_operations::item_types;
use tollgate_operations::readiness::QueueState;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::lanes::versions;
use crate::answer::error::{ApiError, unavailable};
use crate::answer::of::Of;
use crate::contract::refusals::{Changes, Finds, Reads};
use crate::door::auth::Caller;
use crate::request::body::{Body, author, parse, wrong};
use crate::request::extract::Path;

impl Of<(&ItemType, ItemTypeInForce)> for contract::ItemType {
    fn of((name, found): (&ItemType, ItemTypeInForce)) -> Self {
        let ItemTypeInForce { config, setting } = found;
        Self {
            item_type: name.to_string(),
            enabled: config.enabled,
            batch_size: config.batch_size,
            items_per_flow: config.items_per_flow,
            dispatch_interval_secs: config.dispatch_interval_secs,
            jitter_window_ms: config.jitter_window_ms,
            pre_start_buffer_mins: config.pre_start_buffer_mins,
            max_dispatch_retries: config.max_dispatch_retries,
            stale_claim_threshold_mins: config.stale_claim_threshold_mins,
            exec_workflow_type: config.exec_workflow_type,
            exec_task_queue: config.exec_task_queue,
            version: setting.version,
            since: setting.created_at,
            actor: setting.author.actor,
            reason: setting.author.reason,
        }
    }
}

impl App {
    /// An item type by its name, in any case.
    pub(super) fn item_type_named(name: &str) -> Result<ItemType, ApiError> {
        let known = item_types().into_iter().map(|(known, _)| known);
        let found = known
            .into_iter()
            .find(|known| known.as_str().eq_ignore_ascii_case(name));
        found.ok_or_else(|| ApiError::not_found(format!("there is no item type \"{name}\"")))
    }

    /// Items that are started where nobody polls would wait for ever.
    async fn may_move_to(&self, name: &ItemType, queue: &str) -> Result<(), ApiError> {
        let now = item_type(&*self.store, name).await?;
        let is_same = now.is_some_and(|now| now.config.exec_task_queue == queue);
        if is_same || !is_queue_name(queue) {
            return Ok(());
        }
        match self.engine.takes(queue).await {
            QueueState::Polled => Ok(()),
            QueueState::NoQueues => Err(wrong(
                "execTaskQueue",
                "cannot be changed: the embedded engine runs every flow itself and has no task queues; they are Temporal's (engine.url)",
            )),
            QueueState::Unpolled => Err(ApiError::conflict(format!(
                "no process polls the task queue \"{queue}\"; start a process with engine.temporal.exec_task_queues = [\"{queue}\"] first"
            ))),
            QueueState::Unknown(why) => Err(unavailable(&why)),
        }
    }

    async fn item_type_told(&self, name: &ItemType) -> Result<contract::ItemType, ApiError> {
        let found = item_type(&*self.store, name).await?;
        let found = found.ok_or_else(|| {
            ApiError::not_found(format!("item type \"{name}\" was never configured"))
        })?;
        Ok(contract::ItemType::of((name, found)))
    }
}

/// All item types.
#[utoipa::path(
    get, path = "/admin/item-types", operation_id = "listItemTypes", tag = "item types",
    responses((status = 200, description = "Sorted by name.", body = [contract::ItemType]), Reads),
)]
async fn list(State(app): State<App>) -> Result<Json<Vec<contract::ItemType>>, ApiError> {
    let mut told = vec![];
    for (item_type, _) in item_types() {
        told.push(app.item_type_told(&item_type).await?);
    }
    Ok(Json(told))
}

/// One item type.
#[utoipa::path(
    get, path = "/admin/item-types/{item_type}", operation_id = "getItemType", tag = "item types",
    params(("item_type" = String, Path, description = "Name of the item type.", example = "PAYMENT")),
    responses((status = 200, description = "The current item type.", body = contract::ItemType), Finds),
)]
async fn show(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<contract::ItemType>, ApiError> {
    let name = App::item_type_named(&name)?;
    Ok(Json(app.item_type_told(&name).await?))
}

/// Changes an item type. Takes effect within a second. `enabled: false` is the kill switch.
#[utoipa::path(
    put, path = "/admin/item-types/{item_type}", operation_id = "changeItemType", tag = "item types",
    params(("item_type" = String, Path, description = "Name of the item type.", example = "PAYMENT")),
    request_body = contract::ItemTypeChange,
    responses((status = 200, description = "The current item type.", body = contract::ItemType), Changes),
)]
async fn change(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::ItemType>, ApiError> {
    let name = App::item_type_named(&name)?;
    let request: contract::ItemTypeChange = parse(&headers, body)?;
    let change = ItemTypeChange {
        enabled: request.enabled,
        batch_size: request.batch_size,
        items_per_flow: request.items_per_flow,
        dispatch_interval_secs: request.dispatch_interval_secs,
        jitter_window_ms: request.jitter_window_ms,
        pre_start_buffer_mins: request.pre_start_buffer_mins,
        max_dispatch_retries: request.max_dispatch_retries,
        stale_claim_threshold_mins: request.stale_claim_threshold_mins,
        exec_task_queue: request.exec_task_queue,
    };
    if let Some(queue) = &change.exec_task_queue {
        app.may_move_to(&name, queue).await?;
    }
    let author = author(&caller, request.reason)?;
    let act = match change.enabled {
        Some(true) => "item type enabled",
        Some(false) => "item type disabled",
        None => "item type changed",
    };
    let changed = change_item_type(&*app.store, &name, &change, author).await?;
    app.forecaster.forget();
    app.acted(caller.name(), act, name.as_str());
    Ok(Json(contract::ItemType::of((&name, changed))))
}

/// Every version of an item type, newest first.
#[utoipa::path(
    get, path = "/admin/item-types/{item_type}/history", operation_id = "listItemTypeVersions",
    tag = "item types",
    params(("item_type" = String, Path, description = "Name of the item type.", example = "PAYMENT")),
    responses((status = 200, description = "Each with actor and reason.", body = [contract::Version]), Finds),
)]
async fn history(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<Vec<contract::Version>>, ApiError> {
    let name = App::item_type_named(&name)?;
    versions(&app, SettingKind::ItemType, name.as_str()).await
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show, change))
        .routes(routes!(history))
}
