//! `GET /payments`: page by page, the newest first or by id, by what an index serves, and narrowed by the rest.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::id::{BulkId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::job::JobFilter;
use tollgate_core::ports::{
    ListKey, PageToken, RecordLine, RecordsWanted, RequestState, RequestView, RequestsWanted,
};
use tollgate_dispatch::{LaneForecast, foresee_line};
use tollgate_domains::payments::{self, PaymentStatus};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::newest::Newest;
use crate::App;
use crate::answer::error::ApiError;
use crate::answer::export::Format;
use crate::answer::of::Of;
use crate::answer::source::may_have_ended;
use crate::contract::refusals::Finds;
use crate::contract::words;
use crate::door::auth::Caller;
use crate::imports::views;
use crate::jobs::request;
use crate::request::body::{after_id, wrong};
use crate::request::extract::Query;
use crate::request::page;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Only those with this status.
    #[param(schema_with = words::payment_status)]
    status: Option<String>,
    /// Filter by lane.
    #[param(example = "default")]
    lane: Option<String>,
    /// Filter by gateway: the one chosen when the payment was accepted.
    #[param(max_length = 200)]
    gateway: Option<String>,
    /// Filter by import: its `batchId`.
    batch: Option<String>,
    /// Filter by currency.
    #[param(pattern = "^[A-Z]{3}$", example = "USD")]
    currency: Option<String>,
    /// Smallest amount; needs `currency`.
    #[param(example = "10.00")]
    min_amount: Option<String>,
    /// Largest amount; needs `currency`.
    #[param(example = "1000.00")]
    max_amount: Option<String>,
    /// Accepted at this time or later, such as `2026-11-16T16:00:00Z`.
    accepted_from: Option<String>,
    /// Accepted before this time.
    accepted_to: Option<String>,
    /// Whether the deadline passed before the payment ended.
    late: Option<bool>,
    /// Whether the payment is held.
    held: Option<bool>,
    /// Only payments that are expected to miss their deadline. Not with `order=id`.
    #[serde(default)]
    at_risk: bool,
    /// Complete account number of the debtor or the creditor.
    #[param(max_length = 200)]
    account: Option<String>,
    /// Filter by reference.
    #[param(max_length = 200)]
    reference: Option<String>,
    /// `newest` (default): newest first. `id`: sorted by id, the default with `batch`, `csv` and `ndjson`.
    #[param(schema_with = words::list_order)]
    order: Option<String>,
    /// Page token: the `next` of a page.
    #[param(schema_with = words::page_token_or_id)]
    after: Option<String>,
    /// Page token: the `previous` of a page. Not with `order=id`.
    #[param(schema_with = words::page_token_or_id)]
    before: Option<String>,
    /// Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// `json`: one page. `csv` or `ndjson`: the whole list as a file, with accounts; `limit` does not apply.
    #[param(schema_with = words::list_format)]
    format: Option<String>,
}

pub(crate) const NEWEST: &str = "newest";
pub(crate) const BY_ID: &str = "id";

/// Where a page by time begins.
pub(super) struct Place {
    pub(crate) key: ListKey,
    /// The page lies before it, not behind it.
    pub(crate) newer: bool,
}

/// What is foreseen for the lanes of a page.
pub(crate) type Forecasts = HashMap<LaneName, Option<Arc<LaneForecast>>>;

/// A payment of a list, and what the list may be narrowed by.
pub(crate) struct Line {
    pub(crate) shown: contract::PaymentLine,
    /// Has not ended, and will miss its deadline as things stand.
    pub(super) at_risk: bool,
}

impl Line {
    pub(crate) fn new(record: RecordLine, forecasts: &Forecasts, now: Timestamp) -> Self {
        let lane = forecasts.get(&record.lane).and_then(Option::as_deref);
        let (foreseen, meets_deadline) = foresee_line(&record, &payments::item_type(), lane, now);
        let foreseen = foreseen.filter(|_| record.deadline.is_some());
        let untold = foreseen.and_then(|foreseen| foreseen.sent.err());
        let may_run = matches!(
            record.queue_status,
            QueueStatus::Ready | QueueStatus::Claimed | QueueStatus::Dispatched
        );
        let at_risk = meets_deadline == Some(false) && may_run && !record.has_ended;
        let at_risk = at_risk && !record.was_sent;
        let shown = contract::PaymentLine {
            payment_id: record.id.to_string(),
            status: record.status,
            amount: record.money.decimal(),
            currency: record.money.currency.code().to_owned(),
            lane: Some(record.lane.to_string()),
            queue_status: Some(record.queue_status.to_string()),
            run: record.run,
            scheduled_time: Some(record.slot),
            deadline: record.deadline,
            meets_deadline,
            provisional: untold.as_ref().map(contract::Provisional::of),
            created_at: record.created_at,
        };
        Self { shown, at_risk }
    }
}

impl From<RequestView> for Line {
    fn from(request: RequestView) -> Self {
        let status = match request.state {
            RequestState::Waiting => PaymentStatus::Initializing,
            RequestState::Cancelled => PaymentStatus::Cancelled,
            RequestState::Refused => PaymentStatus::Rejected,
        };
        let shown = contract::PaymentLine {
            payment_id: request.id.to_string(),
            status: status.as_str().to_owned(),
            amount: request.money.decimal(),
            currency: request.money.currency.code().to_owned(),
            lane: None,
            queue_status: None,
            run: 0,
            scheduled_time: None,
            deadline: None,
            meets_deadline: None,
            provisional: None,
            created_at: request.accepted_at,
        };
        Self {
            shown,
            at_risk: false,
        }
    }
}

/// Lists payments, newest first, including accepted payments without a slot yet. With `format`, exports the whole list as a file.
///
/// The filters status, held, import, account, reference and time use an index; with up to 10,000 matches the page is
/// exact. Lane, gateway, amount, lateness and risk filter the payments found; the search stops after 20,000 payments:
/// then `complete` is false and `next` continues it. Archived payments are not listed here; `archived`, or the header
/// `tollgate-archived` of a file, says so.
#[utoipa::path(
    get, path = "/payments", operation_id = "listPayments", tag = "payments",
    params(ListQuery),
    responses(
        (status = 200, description = "One page, or the whole list.", content(
            (contract::PaymentList = "application/json"),
            (String = "text/csv"),
            (String = "application/x-ndjson"),
        )),
        Finds,
    ),
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Response, ApiError> {
    match Format::parse(query.format.as_deref())? {
        Some(format) => app.export_payments(caller, query, format).await,
        None => {
            let page = app.payments(&query).await?;
            let archived = query.archived(&app).await?;
            Ok(Json(contract::PaymentList { archived, ..page }).into_response())
        }
    }
}

impl ListQuery {
    /// None if the list is by id.
    pub(super) async fn newest(&self, app: &App) -> Result<Option<Newest>, ApiError> {
        let by_id = self.batch.is_some() || self.format.is_some();
        let is_newest = match self.order.as_deref() {
            None => !by_id,
            Some(BY_ID) => false,
            Some(NEWEST) if self.batch.is_some() => {
                return Err(wrong("order", "must be id with batch"));
            }
            Some(NEWEST) => true,
            Some(_) => return Err(wrong("order", "must be newest or id")),
        };
        if !is_newest {
            let only = [("before", self.before.is_some()), ("atRisk", self.at_risk)];
            return match only.into_iter().find(|(_, is_given)| *is_given) {
                Some((field, _)) => Err(wrong(field, "is not allowed with order=id")),
                None => Ok(None),
            };
        }
        let status = match &self.status {
            None if self.at_risk => Some(PaymentStatus::Scheduled.as_str().to_owned()),
            status => status.clone(),
        };
        let wanted = RecordsWanted {
            status: status.clone(),
            after: None,
            ..self.wanted(app).await?
        };
        let filter = JobFilter {
            status,
            lane: wanted.lane.clone(),
            ..self.narrowed(app).await?.unwrap_or_default()
        };
        Ok(Some(Newest {
            filter,
            at_risk: self.at_risk,
            place: self.place()?,
            wanted,
        }))
    }

    fn place(&self) -> Result<Option<Place>, ApiError> {
        let (field, token, newer) = match (&self.after, &self.before) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => return Err(wrong("before", "is not allowed with after")),
            (Some(after), None) => ("after", after, false),
            (None, Some(before)) => ("before", before, true),
        };
        let what = "must be a page token of the same list, unchanged";
        let key = PageToken::parse(token).and_then(|it| ListKey::at_page_token(&it));
        let key = key.ok_or_else(|| wrong(field, what))?;
        Ok(Some(Place { key, newer }))
    }

    fn is_by_time(&self) -> bool {
        match self.order.as_deref() {
            None => self.batch.is_none() && self.format.is_none(),
            Some(order) => order == NEWEST,
        }
    }

    pub(crate) async fn wanted(&self, app: &App) -> Result<RecordsWanted, ApiError> {
        if let Some(lane) = &self.lane {
            app.lane_named(Some(lane.clone())).await?;
        }
        if let Some(batch) = &self.batch {
            views::found(app, batch).await?;
        }
        Ok(RecordsWanted {
            item_type: payments::item_type(),
            status: self.status.clone().map(known).transpose()?,
            lane: self.lane.clone().map(LaneName::new),
            owner: None,
            bulk: self.batch.clone().map(BulkId::new),
            after: match &self.after {
                Some(after) if !self.is_by_time() => Some(after_id(after.clone())?),
                Some(_) | None => None,
            },
            limit: page::limit(self.limit)?,
        })
    }

    /// What the archive has of this list. Accounts and references are not looked for there.
    pub(super) async fn archived(
        &self,
        app: &App,
    ) -> Result<Option<contract::ArchivedPart>, ApiError> {
        let may_be_there =
            may_have_ended(self.status.as_deref()) && self.held != Some(true) && !self.at_risk;
        if !may_be_there {
            return Ok(None);
        }
        let times = self.narrowed(app).await?.unwrap_or_default();
        let of = (&payments::item_type(), "payments");
        app.archived_part(of, times.accepted_from, times.accepted_to)
            .await
    }

    /// What no index serves.
    pub(super) async fn narrowed(&self, app: &App) -> Result<Option<JobFilter>, ApiError> {
        let filter = contract::JobFilter {
            currency: self.currency.clone(),
            min_amount: self.min_amount.clone(),
            max_amount: self.max_amount.clone(),
            accepted_from: self.accepted_from.clone(),
            accepted_to: self.accepted_to.clone(),
            late: self.late,
            held: self.held,
            account: self.account.clone(),
            reference: self.reference.clone(),
            gateway: self.gateway.clone(),
            ..contract::JobFilter::default()
        };
        let filter = request::read(&filter, app, "").await?;
        Ok((!filter.is_empty()).then_some(filter))
    }

    /// The same list, from another payment on.
    pub(crate) fn from(self, after: String) -> Self {
        Self {
            after: Some(after),
            ..self
        }
    }

    pub(super) fn sized(self, limit: u32) -> Self {
        Self {
            limit: Some(limit),
            ..self
        }
    }
}

/// Which requests belong to a list: of this state, or all that are shown.
pub(super) enum RequestsOf {
    None,
    These(Option<RequestState>),
}

/// Payments that are not planned have no lane and no file yet.
pub(super) fn requests_of(wanted: &RecordsWanted) -> RequestsOf {
    if wanted.lane.is_some() || wanted.bulk.is_some() {
        return RequestsOf::None;
    }
    let is = |status: PaymentStatus| wanted.status.as_deref() == Some(status.as_str());
    if is(PaymentStatus::Initializing) {
        RequestsOf::These(Some(RequestState::Waiting))
    } else if is(PaymentStatus::Cancelled) {
        RequestsOf::These(Some(RequestState::Cancelled))
    } else if wanted.status.is_none() {
        RequestsOf::These(None)
    } else {
        RequestsOf::None
    }
}

pub(super) fn requests_wanted(wanted: &RecordsWanted) -> Option<RequestsWanted> {
    let RequestsOf::These(state) = requests_of(wanted) else {
        return None;
    };
    Some(RequestsWanted {
        item_type: wanted.item_type.clone(),
        state,
        after: wanted.after.clone(),
        limit: wanted.limit,
    })
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
