//! `GET /payments`: page by page, by status, lane and batch.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::id::{BulkId, ItemId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{RecordLine, RecordsWanted};
use tollgate_dispatch::LaneForecast;
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
    /// As foreseen for what waits; null without a deadline, for what is under way or has ended, and while no time
    /// can be told.
    meets_deadline: Option<bool>,
    /// When it was taken in.
    created_at: Timestamp,
}

/// What is foreseen for the lanes of a page.
type Forecasts = HashMap<LaneName, Option<Arc<LaneForecast>>>;

fn meets_deadline(line: &RecordLine, forecasts: &Forecasts) -> Option<bool> {
    let lane = forecasts.get(&line.lane)?.as_ref()?;
    match line.queue_status {
        QueueStatus::Ready => {
            lane.ready(&payments::item_type(), line.slot, line.deadline)
                .meets_deadline
        }
        QueueStatus::Claimed => lane.under_way(line.slot, line.deadline).meets_deadline,
        QueueStatus::Held => line.deadline.map(|_| false),
        QueueStatus::Dispatched | QueueStatus::Dead | QueueStatus::Cancelled => None,
    }
}

impl LineResponse {
    fn new(line: RecordLine, forecasts: &Forecasts) -> Self {
        let meets_deadline = meets_deadline(&line, forecasts);
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
            meets_deadline,
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
        bulk: query.batch.map(BulkId::new),
        after: query.after.map(after_id).transpose()?,
        limit: page::limit(query.limit)?,
    };
    let page = app.store.records(wanted).await?;
    let mut forecasts = Forecasts::new();
    for line in page.items.iter().filter(|line| line.deadline.is_some()) {
        if !forecasts.contains_key(&line.lane) {
            let foreseen = app.forecaster.lane(&line.lane).await?;
            forecasts.insert(line.lane.clone(), foreseen);
        }
    }
    let lines = page.items.into_iter();
    Ok(Json(ListResponse {
        payments: lines
            .map(|line| LineResponse::new(line, &forecasts))
            .collect(),
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
