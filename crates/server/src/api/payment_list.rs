//! `GET /payments`: page by page, by status, lane and batch.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::id::{BulkId, ItemId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{
    Page, RecordLine, RecordsWanted, RequestState, RequestView, RequestsWanted,
};
use tollgate_dispatch::{LaneForecast, foresee_line};
use tollgate_domains::payments::{self, PaymentStatus};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::body::{after_id, wrong};
use super::error::ApiError;
use super::extract::Query;
use super::foreseen::Provisional;
use super::refusals::Reads;
use super::{App, page, words};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Only those with this status.
    #[param(schema_with = words::payment_status)]
    status: Option<String>,
    /// Filter by lane.
    #[param(example = "default")]
    lane: Option<String>,
    /// Filter by import: its `batchId`.
    batch: Option<String>,
    /// The next page: after this id.
    #[param(schema_with = words::id)]
    after: Option<String>,
    /// Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Payments, sorted by id.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PaymentList)]
struct ListResponse {
    payments: Vec<LineResponse>,
    /// Page token: pass it as `after`. Null on the last page. A page may be short, or empty, and
    /// still have a next page.
    #[schema(value_type = Option<String>)]
    next: Option<ItemId>,
}

/// One payment of a list.
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
    /// Null until the payment has a slot.
    #[schema(value_type = Option<String>, example = "default")]
    lane: Option<LaneName>,
    /// Null until the payment has a slot.
    #[schema(schema_with = words::queue_status_or_null)]
    queue_status: Option<QueueStatus>,
    /// 0 until the payment has a slot.
    run: u32,
    /// Slot: the planned time. Null until it is assigned.
    scheduled_time: Option<Timestamp>,
    deadline: Option<Timestamp>,
    /// Whether the item meets, or met, its deadline. Null without a deadline or if `provisional` is set.
    meets_deadline: Option<bool>,
    /// For a payment with a deadline: why no estimate is available. Null if there is one, and after the send.
    provisional: Option<Provisional>,
    /// Time at which it was accepted.
    created_at: Timestamp,
}

/// What is foreseen for the lanes of a page.
type Forecasts = HashMap<LaneName, Option<Arc<LaneForecast>>>;

impl LineResponse {
    fn new(record: RecordLine, forecasts: &Forecasts, now: Timestamp) -> Self {
        let lane = forecasts.get(&record.lane).and_then(Option::as_deref);
        let (foreseen, meets_deadline) = foresee_line(&record, &payments::item_type(), lane, now);
        let foreseen = foreseen.filter(|_| record.deadline.is_some());
        let untold = foreseen.and_then(|foreseen| foreseen.sent.err());
        Self {
            payment_id: record.id,
            status: record.status,
            amount: record.money.decimal(),
            currency: record.money.currency.code(),
            lane: Some(record.lane),
            queue_status: Some(record.queue_status),
            run: record.run,
            scheduled_time: Some(record.slot),
            deadline: record.deadline,
            meets_deadline,
            provisional: untold.as_ref().map(Provisional::from),
            created_at: record.created_at,
        }
    }
}

impl From<RequestView> for LineResponse {
    fn from(request: RequestView) -> Self {
        let status = match request.state {
            RequestState::Waiting => PaymentStatus::Initializing,
            RequestState::Cancelled => PaymentStatus::Cancelled,
            RequestState::Refused => PaymentStatus::Rejected,
        };
        Self {
            payment_id: request.id,
            status: status.as_str().to_owned(),
            amount: request.money.decimal(),
            currency: request.money.currency.code(),
            lane: None,
            queue_status: None,
            run: 0,
            scheduled_time: None,
            deadline: None,
            meets_deadline: None,
            provisional: None,
            created_at: request.accepted_at,
        }
    }
}

/// Lists payments, paged, including accepted payments without a slot yet.
#[utoipa::path(
    get, path = "/payments", operation_id = "listPayments", tag = "payments",
    params(ListQuery),
    responses((status = 200, description = "One page, sorted by id.", body = ListResponse), Reads),
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
    // Requests first: one that is planned meanwhile is then seen as a payment, too, and told once.
    let requests = match requests_wanted(&wanted) {
        Some(wanted) => app.store.requests(wanted).await?,
        None => vec![],
    };
    let limit = wanted.limit;
    let page = app.store.records(wanted).await?;
    let mut forecasts = Forecasts::new();
    for line in page.items.iter().filter(|line| line.deadline.is_some()) {
        if !forecasts.contains_key(&line.lane) {
            let foreseen = app.forecaster.lane(&line.lane).await?;
            forecasts.insert(line.lane.clone(), foreseen);
        }
    }
    let now = app.store.now().await?;
    Ok(Json(merged(requests, page, &forecasts, now, limit)))
}

/// Payments that are not planned have no lane and no file yet.
fn requests_wanted(wanted: &RecordsWanted) -> Option<RequestsWanted> {
    if wanted.lane.is_some() || wanted.bulk.is_some() {
        return None;
    }
    let is = |status: PaymentStatus| wanted.status.as_deref() == Some(status.as_str());
    let state = if is(PaymentStatus::Initializing) {
        Some(RequestState::Waiting)
    } else if is(PaymentStatus::Cancelled) {
        Some(RequestState::Cancelled)
    } else if wanted.status.is_none() {
        None
    } else {
        return None;
    };
    Some(RequestsWanted {
        item_type: wanted.item_type.clone(),
        state,
        after: wanted.after.clone(),
        limit: wanted.limit,
    })
}

/// Both in the order of ids, as one page. What lies behind the end of either page is on the next one.
fn merged(
    requests: Vec<RequestView>,
    page: Page<RecordLine, ItemId>,
    forecasts: &Forecasts,
    now: Timestamp,
    limit: u32,
) -> ListResponse {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let is_full = requests.len() >= limit;
    let last_request = requests.last().map(|request| request.id.clone());
    let ends = [last_request.filter(|_| is_full), page.next];
    let end = ends.into_iter().flatten().min();
    let requests = requests.into_iter().map(LineResponse::from);
    let mut lines: BTreeMap<ItemId, LineResponse> = requests
        .map(|line| (line.payment_id.clone(), line))
        .collect();
    let records = page.items.into_iter();
    let records = records.map(|line| LineResponse::new(line, forecasts, now));
    lines.extend(records.map(|line| (line.payment_id.clone(), line)));
    if let Some(end) = &end {
        lines.retain(|id, _| id <= end);
    }
    let is_cut = lines.len() > limit;
    let payments: Vec<_> = lines.into_values().take(limit).collect();
    let last = payments.last().map(|line| line.payment_id.clone());
    let next = if is_cut { last } else { end };
    ListResponse { payments, next }
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

#[cfg(test)]
mod tests {
    use tollgate_core::details::Details;
    use tollgate_core::money::Money;

    use super::*;

    fn request(id: &str) -> RequestView {
        RequestView {
            id: ItemId::new(id),
            state: RequestState::Waiting,
            content_hash: String::new(),
            money: Money::NONE,
            document: String::new(),
            details: Details::new(),
            invalid: false,
            correction: 1,
            tries: 1,
            failed_try: 0,
            last_error: None,
            moved_to: None,
            ended_at: None,
            accepted_at: Timestamp::UNIX_EPOCH,
            due: Timestamp::UNIX_EPOCH,
        }
    }

    fn record(id: &str) -> RecordLine {
        RecordLine {
            id: ItemId::new(id),
            status: "SCHEDULED".into(),
            money: Money::NONE,
            lane: LaneName::new("bank"),
            queue_status: QueueStatus::Ready,
            run: 1,
            slot: Timestamp::UNIX_EPOCH,
            due: Timestamp::UNIX_EPOCH,
            deadline: None,
            has_ended: false,
            last_turn: None,
            was_sent: false,
            created_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn what_is_not_planned_is_listed_among_the_others_and_nothing_is_left_out() {
        let (waiting, planned) = (["b", "d", "e", "h"], ["a", "c", "d", "f", "g"]);
        for limit in 1..=10_u32 {
            let (mut after, mut seen) = (String::new(), vec![]);
            loop {
                let most = usize::try_from(limit).unwrap();
                let on = |ids: &[&'static str]| -> Vec<&'static str> {
                    let later = ids.iter().copied().filter(|id| *id > after.as_str());
                    later.take(most + 1).collect()
                };
                let requests = on(&waiting).into_iter().take(most).map(request).collect();
                let records = on(&planned);
                let next = (records.len() > most).then(|| ItemId::new(records[most - 1]));
                let items = records.into_iter().take(most).map(record).collect();
                let (page, none) = (Page { items, next }, Forecasts::default());
                let told = merged(requests, page, &none, Timestamp::UNIX_EPOCH, limit);
                assert!(told.payments.len() <= most);
                seen.extend(told.payments.iter().map(|it| it.payment_id.to_string()));
                match told.next {
                    Some(next) => after = next.to_string(),
                    None => break,
                }
            }
            assert_eq!(seen.concat(), "abcdefgh", "{limit} on a page");
        }
    }
}
