//! `GET /admin/audit`: who did what, newest first.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::id::{BatchId, Item, ItemId, check_item_id};
use tollgate_core::ports::{AuditEntry, AuditWanted};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::wrong;
use super::error::ApiError;
use super::extract::Query;
use super::refusals::Reads;
use super::sight::Sights;
use super::{App, page};
use crate::auth::Caller;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AuditQuery {
    /// Filter by item: `TYPE/ID`.
    #[param(
        pattern = "^[A-Za-z]+/[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$",
        example = "PAYMENT/pay_001"
    )]
    item: Option<String>,
    /// Filter by actor: a token's name, or a component such as `sender`.
    actor: Option<String>,
    /// Filter by event, such as `SETTING_CHANGED`.
    action: Option<String>,
    /// Page token: returns entries older than the entry with this id.
    after: Option<i64>,
    /// Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Entries, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditLog)]
struct AuditResponse {
    entries: Vec<EntryResponse>,
    /// Page token: pass it as `after`. Null on the last page. A page may be short, or empty, and
    /// still have a next page.
    next: Option<i64>,
}

/// One entry of the audit log: actor, event, item and reason.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditEntry)]
struct EntryResponse {
    id: i64,
    at: Timestamp,
    /// The dispatcher's batch, if the entry is about one.
    #[schema(value_type = Option<String>, example = "BATCH-0f3a9c5e7d214b68")]
    batch_id: Option<BatchId>,
    /// `TYPE/ID`, if the entry is about one item.
    #[schema(example = "PAYMENT/pay_001")]
    item: Option<String>,
    #[schema(example = "CANCELLED")]
    action: String,
    status_before: Option<String>,
    status_after: Option<String>,
    actor: String,
    /// Free text. Account numbers are complete for the role `operate` only.
    detail: String,
}

impl EntryResponse {
    fn new(entry: AuditEntry, sights: &Sights) -> Self {
        Self {
            detail: sights.text(entry.item.as_ref(), entry.detail),
            id: entry.id,
            at: entry.at,
            batch_id: entry.batch,
            item: entry.item.map(|item| item.to_string()),
            action: entry.action,
            status_before: entry.status_before,
            status_after: entry.status_after,
            actor: entry.actor,
        }
    }
}

/// The audit log, newest first.
#[utoipa::path(
    get, path = "/admin/audit", operation_id = "listAudit", tag = "accounts",
    params(AuditQuery),
    responses((status = 200, description = "One page.", body = AuditResponse), Reads),
)]
async fn audit(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<AuditQuery>,
) -> Result<Json<AuditResponse>, ApiError> {
    let wanted = AuditWanted {
        item: query.item.as_deref().map(item).transpose()?,
        actor: query.actor,
        action: query.action,
        after: query.after,
        limit: page::limit(query.limit)?,
    };
    let page = app.store.audit_log(wanted).await?;
    let items = page.items.iter().filter_map(|entry| entry.item.as_ref());
    let sights = Sights::of(&app, &caller, items).await?;
    let told = |entry| EntryResponse::new(entry, &sights);
    Ok(Json(AuditResponse {
        entries: page.items.into_iter().map(told).collect(),
        next: page.next,
    }))
}

fn item(text: &str) -> Result<Item, ApiError> {
    let form = "must be TYPE/ID, such as PAYMENT/pay_001";
    let (item_type, id) = text.split_once('/').ok_or_else(|| wrong("item", form))?;
    let item_type = App::item_type_named(item_type).map_err(|_| {
        wrong(
            "item",
            format!("there is no item type \"{item_type}\"; it {form}"),
        )
    })?;
    check_item_id(id).map_err(|why| wrong("item", format!("its id {why}")))?;
    Ok(Item::new(&item_type, &ItemId::new(id)))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(audit))
}
