//! `/admin/item-types/{item_type}/retention`: how long ended items stay where, changed while running.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use tollgate_config::TypeRetention;
use tollgate_core::Timestamp;
use tollgate_core::id::ItemType;
use tollgate_core::retention::{Ages, Floor};
use tollgate_dispatch::{AgesInForce, ages_in_force, change_ages};
use tollgate_domains::{invoices, payments};
use tollgate_operations::ages;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::answer::error::{ApiError, internal};
use super::contract::refusals::{Changes, Finds};
use super::request::body::{Body, author, parse, wrong};
use super::request::extract::Path;
use crate::door::auth::Caller;

/// Retention of ended items of a type.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Retention)]
struct RetentionResponse {
    #[schema(example = "PAYMENT")]
    item_type: String,
    /// Whole days (UTC) that an item stays in the hot tables after its end.
    #[schema(example = 30)]
    hot_days: u32,
    /// Days that an item stays in the database after its end.
    #[schema(example = 400)]
    archive_days: u32,
    /// Years for which an id is remembered. A remembered id is never paid again.
    #[schema(example = 10)]
    known_years: u32,
    /// 0 while the values are those of the configuration.
    version: i64,
    /// Time, actor and reason of the change. Null while the values are those of the configuration.
    since: Option<Timestamp>,
    actor: Option<String>,
    reason: Option<String>,
}

impl RetentionResponse {
    fn new(item_type: &ItemType, found: &AgesInForce) -> Self {
        let setting = found.setting.as_ref();
        Self {
            item_type: item_type.to_string(),
            hot_days: found.ages.hot_days,
            archive_days: found.ages.archive_days,
            known_years: found.ages.known_years,
            version: setting.map_or(0, |setting| setting.version),
            since: setting.map(|setting| setting.created_at),
            actor: setting.map(|setting| setting.author.actor.clone()),
            reason: setting.map(|setting| setting.author.reason.clone()),
        }
    }
}

/// Fields that are not given keep their value.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = RetentionChange, example = json!({"hotDays": 60, "reason": "auditors look at the last two months"}))]
struct ChangeRequest {
    #[schema(minimum = 1, maximum = 36_500)]
    hot_days: Option<u32>,
    #[schema(minimum = 1, maximum = 36_500)]
    archive_days: Option<u32>,
    #[schema(minimum = 1, maximum = 100)]
    known_years: Option<u32>,
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
}

impl App {
    pub(super) fn retention_of(&self, item_type: &ItemType) -> Result<&TypeRetention, ApiError> {
        let mut known = self.retention.iter();
        let found = known.find(|of| of.archived.item_type == *item_type);
        found.ok_or_else(|| internal(&format!("{item_type} has no retention")))
    }
}

impl App {
    /// What still looks at ended items, as it is in force now.
    async fn floors(&self, of: &TypeRetention) -> Result<Vec<Floor>, ApiError> {
        let mut floors = of.floors.clone();
        let item_type = &of.archived.item_type;
        if *item_type == payments::item_type() {
            floors.extend(ages::of_rules(&self.rules).await?);
        } else if *item_type == invoices::item_type() {
            floors.extend(ages::of_customers(self.billing.customers()).await?);
        }
        Ok(floors)
    }
}

/// How long ended items of a type stay in the hot tables and in the database, and how long their ids are remembered.
#[utoipa::path(
    get, path = "/admin/item-types/{item_type}/retention", operation_id = "getRetention", tag = "item types",
    params(("item_type" = String, Path, description = "Name of the item type.", example = "PAYMENT")),
    responses((status = 200, description = "The current values.", body = RetentionResponse), Finds),
)]
async fn show(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<RetentionResponse>, ApiError> {
    let name = App::item_type_named(&name)?;
    let configured = app.retention_of(&name)?.archived.ages;
    let found = ages_in_force(&*app.store, &name, configured).await?;
    Ok(Json(RetentionResponse::new(&name, &found)))
}

/// Changes the retention of ended items of a type. Takes effect within ten minutes.
///
/// 400 with the lowest possible value if something still needs items of that age: a bank's idempotency keys, a rule about
/// duplicates, notifications, or the retry schedule of invoices.
#[utoipa::path(
    put, path = "/admin/item-types/{item_type}/retention", operation_id = "changeRetention", tag = "item types",
    params(("item_type" = String, Path, description = "Name of the item type.", example = "PAYMENT")),
    request_body = ChangeRequest,
    responses((status = 200, description = "The current values.", body = RetentionResponse), Changes),
)]
async fn change(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<RetentionResponse>, ApiError> {
    let name = App::item_type_named(&name)?;
    let request: ChangeRequest = parse(&headers, body)?;
    let author = author(&caller, request.reason)?;
    let of = app.retention_of(&name)?;
    let old = ages_in_force(&*app.store, &name, of.archived.ages)
        .await?
        .ages;
    let wanted = Ages {
        hot_days: request.hot_days.unwrap_or(old.hot_days),
        archive_days: request.archive_days.unwrap_or(old.archive_days),
        known_years: request.known_years.unwrap_or(old.known_years),
    };
    let floors = app.floors(of).await?;
    if let Some((field, why)) = wanted.problem(&floors) {
        return Err(wrong(field, why));
    }
    let changed = change_ages(&*app.store, &name, wanted, author).await?;
    app.acted(caller.name(), "retention changed", name.as_str());
    Ok(Json(RetentionResponse::new(&name, &changed)))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show, change))
}
