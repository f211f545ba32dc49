//! `GET /invoices`: page by page, by status or customer.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::id::{ItemId, check_item_id};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{RecordLine, RecordsWanted};
use tollgate_domains::invoices::{self, InvoiceStatus};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::{after_id, wrong};
use super::error::ApiError;
use super::extract::Query;
use super::invoices::Amount;
use super::refusals::Reads;
use super::{App, page, words};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Only those with this status.
    #[param(schema_with = words::invoice_status)]
    status: Option<String>,
    /// Only those of this customer.
    #[param(schema_with = words::id)]
    customer: Option<String>,
    /// The next page: after this id.
    #[param(schema_with = words::id)]
    after: Option<String>,
    /// Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Invoices, sorted by id.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InvoiceList)]
struct ListResponse {
    invoices: Vec<LineResponse>,
    /// Page token: pass it as `after`. Null on the last page.
    #[schema(value_type = Option<String>)]
    next: Option<ItemId>,
}

/// One invoice of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = InvoiceLine)]
struct LineResponse {
    #[schema(value_type = String, example = "inv_1")]
    invoice_id: ItemId,
    #[schema(schema_with = words::invoice_status)]
    status: String,
    amount: Amount,
    #[schema(schema_with = words::queue_status)]
    queue_status: QueueStatus,
    run: u32,
    /// Slot: the planned time.
    scheduled_time: Timestamp,
    /// Time at which it was accepted.
    created_at: Timestamp,
}

impl From<RecordLine> for LineResponse {
    fn from(line: RecordLine) -> Self {
        Self {
            invoice_id: line.id,
            status: line.status,
            amount: line.money.into(),
            queue_status: line.queue_status,
            run: line.run,
            scheduled_time: line.slot,
            created_at: line.created_at,
        }
    }
}

/// Lists invoices, paged.
#[utoipa::path(
    get, path = "/invoices", operation_id = "listInvoices", tag = "invoices",
    params(ListQuery),
    responses((status = 200, description = "One page, sorted by id.", body = ListResponse), Reads),
)]
async fn list(
    State(app): State<App>,
    Query(query): Query<ListQuery>,
) -> Result<Json<ListResponse>, ApiError> {
    let wanted = RecordsWanted {
        status: query.status.map(known).transpose()?,
        owner: query.customer.map(customer).transpose()?,
        after: query.after.map(after_id).transpose()?,
        ..RecordsWanted::all(invoices::item_type(), page::limit(query.limit)?)
    };
    let page = app.store.records(wanted).await?;
    Ok(Json(ListResponse {
        invoices: page.items.into_iter().map(LineResponse::from).collect(),
        next: page.next,
    }))
}

fn customer(id: String) -> Result<String, ApiError> {
    match check_item_id(&id) {
        Ok(()) => Ok(id),
        Err(why) => Err(wrong("customer", why)),
    }
}

fn known(status: String) -> Result<String, ApiError> {
    let all = InvoiceStatus::ALL.map(InvoiceStatus::as_str);
    if all.contains(&status.as_str()) {
        return Ok(status);
    }
    Err(wrong(
        "status",
        format!("must be one of {}", all.join(", ")),
    ))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}
