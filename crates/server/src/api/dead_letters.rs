//! `/admin/dead-letters`: what the machine has given up.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::id::{Item, ItemId, ItemType, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{DeadLetter, Intervened};
use tollgate_domains::payments;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::{Body, after_id, author, parse};
use super::error::ApiError;
use super::extract::{Path, Query};
use super::payment_changes::Because;
use super::payments::payment_id;
use super::refusals::{Changes, Finds};
use super::sight::Sights;
use super::{App, page, words};
use crate::auth::Caller;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Item type. Default: `PAYMENT`.
    #[serde(rename = "type")]
    #[param(example = "PAYMENT")]
    item_type: Option<String>,
    /// The next page: after this id.
    #[param(schema_with = words::id)]
    after: Option<String>,
    /// Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Dead letters, sorted by id.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeadLetterList)]
struct ListResponse {
    dead_letters: Vec<LetterResponse>,
    /// Page token: pass it as `after`. Null on the last page.
    #[schema(value_type = Option<String>)]
    next: Option<ItemId>,
}

/// A dead letter: the item and the reason.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeadLetter)]
struct LetterResponse {
    #[schema(example = "PAYMENT")]
    item_type: String,
    #[schema(value_type = String, example = "pay_001")]
    id: ItemId,
    /// Status of the payment, invoice or notification.
    status: String,
    amount: String,
    currency: &'static str,
    #[schema(value_type = String)]
    lane: LaneName,
    run: u32,
    /// Number of failed starts.
    retry_count: u32,
    last_error: Option<String>,
    /// Due time.
    due: Timestamp,
}

impl LetterResponse {
    fn new(item_type: &ItemType, letter: DeadLetter, sights: &Sights) -> Self {
        let item = Item::new(item_type, &letter.id);
        let hidden = |text| sights.text(Some(&item), text);
        Self {
            last_error: letter.last_error.map(hidden),
            item_type: item_type.to_string(),
            id: letter.id,
            status: letter.status,
            amount: letter.money.decimal(),
            currency: letter.money.currency.code(),
            lane: letter.lane,
            run: letter.run,
            retry_count: letter.retry_count,
            due: letter.due,
        }
    }
}

/// A replayed item.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Replayed)]
struct ReplayResponse {
    #[schema(example = "PAYMENT")]
    item_type: String,
    #[schema(value_type = String, example = "pay_001")]
    id: ItemId,
    /// Status of the payment, invoice or notification.
    status: String,
    #[schema(schema_with = words::queue_status)]
    queue_status: QueueStatus,
    /// Current run, counted from 1.
    run: u32,
}

/// Dead letters: items that Tollgate has given up. Sorted by id.
#[utoipa::path(
    get, path = "/admin/dead-letters", operation_id = "listDeadLetters", tag = "worklists",
    params(ListQuery),
    responses((status = 200, description = "One page.", body = ListResponse), Finds),
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Json<ListResponse>, ApiError> {
    let item_type = match query.item_type {
        Some(name) => App::item_type_named(&name)?,
        None => payments::item_type(),
    };
    let after = query.after.map(after_id).transpose()?;
    let limit = page::limit(query.limit)?;
    let page = app.store.dead_letters(&item_type, after.as_ref(), limit);
    let page = page.await?;
    let items: Vec<Item> = page
        .items
        .iter()
        .map(|letter| Item::new(&item_type, &letter.id))
        .collect();
    let sights = Sights::of(&app, &caller, items.iter()).await?;
    let told = |letter| LetterResponse::new(&item_type, letter, &sights);
    Ok(Json(ListResponse {
        dead_letters: page.items.into_iter().map(told).collect(),
        next: page.next,
    }))
}

/// Replays a dead letter: executes it again now, as its next run.
#[utoipa::path(
    post, path = "/admin/dead-letters/{item_type}/{id}/replay", operation_id = "replayDeadLetter",
    tag = "worklists",
    params(
        ("item_type" = String, Path, description = "`PAYMENT`, `INVOICE` or `NOTIFICATION`.", example = "PAYMENT"),
        ("id" = String, Path, description = "The item's id.", example = "pay_001"),
    ),
    request_body = Because,
    responses((status = 200, description = "The item is queued again.", body = ReplayResponse), Changes),
)]
async fn replay(
    State(app): State<App>,
    caller: Caller,
    Path((item_type, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ReplayResponse>, ApiError> {
    let item_type = App::item_type_named(&item_type)?;
    let author = author(&caller, parse::<Because>(&headers, body)?.reason)?;
    let item = Item::new(&item_type, &payment_id(&id)?);
    let missing = || ApiError::not_found(format!("there is no {item}"));
    match app.store.replay(&item, author).await? {
        Intervened::Yes => {
            let view = app.store.item(&item).await?.ok_or_else(missing)?;
            Ok(Json(ReplayResponse {
                item_type: item_type.to_string(),
                id: item.id,
                status: view.status,
                queue_status: view.queue_status,
                run: view.run,
            }))
        }
        Intervened::NoSuchItem => Err(missing()),
        Intervened::Refused(why) => Err(ApiError::conflict(format!(
            "{item} cannot be replayed: {why}"
        ))),
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(replay))
}
