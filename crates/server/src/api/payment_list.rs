//! `GET /payments`: page by page, by status, lane and batch.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::id::{BulkId, ItemId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{RecordLine, RecordsWanted};
use tollgate_domains::payments::{self, PaymentStatus};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::{after_id, wrong};
use super::error::ApiError;
use super::extract::Query;
use super::refusals::Reads;
use super::{App, page, words};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Only those with this status.
    #[param(schema_with = words::payment_status)]
    status: Option<String>,
    /// Only those on this lane.
    #[param(example = "default")]
    lane: Option<String>,
    /// Only those that were taken in with this file.
    batch: Option<String>,
    /// The next page: after this id.
    #[param(schema_with = words::id)]
    after: Option<String>,
    /// 100 if not given.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Payments in the order of their ids.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PaymentList)]
struct ListResponse {
    payments: Vec<LineResponse>,
    /// Ask with `after=` for the next page; null on the last one. A page may be short, or even empty,
    /// and still have a next one.
    #[schema(value_type = Option<String>)]
    next: Option<ItemId>,
}

/// A payment in a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PaymentLine)]
struct LineResponse {
    #[schema(value_type = String, example = "pay_001")]
    payment_id: ItemId,
    #[schema(schema_with = words::payment_status)]
    status: String,
    #[schema(example = "125.50")]
    amount: String,
    #[schema(example = "USD")]
    currency: &'static str,
    #[schema(value_type = String, example = "default")]
    lane: LaneName,
    #[schema(schema_with = words::queue_status)]
    queue_status: QueueStatus,
    run: u32,
    /// Its slot.
    scheduled_time: Timestamp,
    deadline: Option<Timestamp>,
    meets_deadline: Option<bool>,
    /// When it was taken in.
    created_at: Timestamp,
}

impl From<RecordLine> for LineResponse {
    fn from(line: RecordLine) -> Self {
        Self {
            payment_id: line.id,
            status: line.status,
            amount: line.money.decimal(),
            currency: line.money.currency.code(),
            lane: line.lane,
            queue_status: line.queue_status,
            run: line.run,
            scheduled_time: line.slot,
            deadline: line.deadline,
            meets_deadline: line.deadline.map(|deadline| line.slot <= deadline),
            created_at: line.created_at,
        }
    }
}

/// Payments, page by page.
#[utoipa::path(
    get, path = "/payments", operation_id = "listPayments", tag = "payments",
    params(ListQuery),
    responses((status = 200, description = "A page, in the order of ids.", body = ListResponse), Reads),
)]
async fn list(
    State(app): State<App>,
    Query(query): Query<ListQuery>,
) -> Result<Json<ListResponse>, ApiError> {
    let wanted = RecordsWanted {
        item_type: payments::item_type(),
        status: query.status.map(known).transpose()?,
        lane: query.lane.map(LaneName::new),
        owner: None,
        bulk: query.batch.map(BulkId::new),
        after: query.after.map(after_id).transpose()?,
        limit: page::limit(query.limit)?,
    };
    let page = app.store.records(wanted).await?;
    Ok(Json(ListResponse {
        payments: page.items.into_iter().map(LineResponse::from).collect(),
        next: page.next,
    }))
}

fn known(status: String) -> Result<String, ApiError> {
    let all = PaymentStatus::ALL.map(PaymentStatus::as_str);
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
