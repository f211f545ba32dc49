//! `POST /payments` and `GET /payments/{id}`.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate_core::Timestamp;
use tollgate_core::id::{BatchId, BulkId, FlowId, ItemId, LaneName, check_item_id};
use tollgate_core::item::QueueStatus;
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{AttemptView, AuditEntry, ItemView, RequestView};
use tollgate_dispatch::{foresee, meets_deadline};
use tollgate_domains::payments::{self, Accepted, PaymentRequest, PaymentStatus, Unrecorded};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::error::{ApiError, json_body};
use super::extract::Path;
use super::foreseen::Foreseen;
use super::payment_body::PaymentBody;
use super::refusals::{Admits, Finds};
use super::sight::{PartyResponse, Sight};
use super::why::{Waits, waits, why_unplanned};
use super::{news, timeline, words};
use crate::auth::Caller;

/// How long a caller waits for an answer if it does not say.
const DEFAULT_WAIT: Duration = Duration::from_secs(10);
const MAX_WAIT: Duration = Duration::from_mins(1);
/// At most this much of a bank's answer is told.
const ANSWER_CHARS: usize = 500;
/// At most this much of a payment's audit trail is part of its timeline, the newest.
const MOST_AUDITED: u32 = 200;

/// What a caller is told about a payment that was taken in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AcceptedPayment)]
struct CreateResponse {
    #[schema(value_type = String, example = "pay_001")]
    payment_id: ItemId,
    /// Its status now: `SCHEDULED` for a new one, `INITIALIZING` while its time is not known yet.
    #[schema(schema_with = words::payment_status)]
    status: String,
    /// Its slot, as it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "2026-11-16T23:00:00.02Z")]
    scheduled_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, nullable = false, example = "default")]
    lane: Option<LaneName>,
    /// All null while its time is not known yet.
    #[serde(flatten)]
    foreseen: Foreseen,
    #[schema(value_type = String, example = "init-payment-pay_001")]
    init_workflow_id: FlowId,
}

/// Takes a payment in and says when it will run.
///
/// The same payment again changes nothing and answers its current status and time, so a client that got no answer
/// sends it again. Sameness is judged by content: `125.5` equals `125.50`. What was answered 202 is durable: it is
/// planned, or refused with the reason, or stays `INITIALIZING` with `whyNotRunning` and is tried again.
#[utoipa::path(
    post, path = "/payments", operation_id = "createPayment", tag = "payments",
    params(("Prefer" = Option<String>, Header,
        description = "`respond-async` to wait not at all, `wait=N` to wait up to N seconds (10 unless said, 60 at most)",
        example = "wait=5")),
    request_body = PaymentBody,
    responses(
        (status = 201, description = "Taken in and planned.", body = CreateResponse),
        (status = 202, description = "Accepted and durable; not planned within the wait.", body = CreateResponse),
        (status = 200, description = "Known already, with the same content: its current status and time.", body = CreateResponse),
        Admits,
    ),
)]
async fn create(
    State(app): State<App>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    let body = json_body(&headers, body)?;
    let payment = PaymentRequest::parse(&body).map_err(ApiError::invalid)?;
    let id = payment.payment_id.clone();
    let (status, body) = match app.intake.accept(payment, wait(&headers)).await? {
        Accepted::Planned { view, is_new: true } => {
            (StatusCode::CREATED, planned(&app, *view).await?)
        }
        Accepted::Planned { view, .. } => (StatusCode::OK, planned(&app, *view).await?),
        Accepted::Initializing { init_flow } => {
            let body = unplanned(id, PaymentStatus::Initializing, init_flow);
            (StatusCode::ACCEPTED, body)
        }
        Accepted::Cancelled { init_flow } => {
            let body = unplanned(id, PaymentStatus::Cancelled, init_flow);
            (StatusCode::OK, body)
        }
        Accepted::Conflict => {
            return Err(ApiError::conflict(format!(
                "payment {id} is known with other content; a changed payment needs an id of its own"
            )));
        }
        Accepted::Invalid(details) => return Err(ApiError::invalid(details)),
        Accepted::Refused(details) => return Err(ApiError::refused(details)),
    };
    Ok((status, Json(body)).into_response())
}

/// By what is foreseen for its lane anyway: nothing more is read for this payment.
async fn planned(app: &App, view: ItemView) -> Result<CreateResponse, ApiError> {
    let now = app.forecaster.lane(&view.lane).await?;
    let as_of = now
        .as_ref()
        .map_or(view.created_at, |lane| lane.table.as_of);
    let foreseen = foresee(&view, now.as_deref(), None, as_of);
    let meets = meets_deadline(&view, foreseen.as_ref());
    let foreseen = Foreseen::of(foreseen, meets);
    let placed = view.placed();
    Ok(CreateResponse {
        payment_id: view.item.id,
        status: view.status,
        scheduled_time: Some(placed.scheduled),
        lane: Some(placed.lane),
        foreseen,
        init_workflow_id: placed.init_flow,
    })
}

fn unplanned(payment_id: ItemId, status: PaymentStatus, init_flow: FlowId) -> CreateResponse {
    CreateResponse {
        payment_id,
        status: status.as_str().to_owned(),
        scheduled_time: None,
        lane: None,
        foreseen: Foreseen::default(),
        init_workflow_id: init_flow,
    }
}

/// `Prefer: respond-async` waits not at all, `Prefer: wait=N` for so many seconds.
fn wait(headers: &HeaderMap) -> Duration {
    let all = headers.get_all("prefer");
    let mut preferences = all
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','));
    let wait = preferences.find_map(|preference| match preference.trim() {
        "respond-async" => Some(Duration::ZERO),
        other => other
            .strip_prefix("wait=")?
            .parse()
            .ok()
            .map(Duration::from_secs),
    });
    wait.unwrap_or(DEFAULT_WAIT).min(MAX_WAIT)
}

/// A payment as it is now.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Payment)]
pub(super) enum PaymentResponse {
    Known(Box<KnownPayment>),
    /// Accepted and not planned yet, or cancelled before it was.
    Initializing(InitializingPayment),
    /// Acknowledged, perhaps, and then not taken in; the id is still free for a corrected one.
    NotTaken(NotTakenPayment),
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct InitializingPayment {
    payment_id: String,
    #[schema(schema_with = words::initializing)]
    status: &'static str,
    #[schema(example = "125.50")]
    amount: String,
    #[schema(example = "USD")]
    currency: &'static str,
    accepted_at: Timestamp,
    /// The time that `reschedule` gave it; null if nobody did.
    rescheduled_to: Option<Timestamp>,
    /// How often planning it was begun.
    tries: u32,
    /// Why it is not planned yet, and when that is tried again.
    why_not_running: String,
    #[schema(value_type = String, example = "init-payment-pay_001")]
    init_workflow_id: FlowId,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NotTakenPayment {
    payment_id: String,
    #[schema(schema_with = words::rejected)]
    status: &'static str,
    /// What is wrong, by field, or the message of the rule that was against it, by its name.
    #[schema(example = json!({"distinct_accounts": "debtor and creditor are the same account"}))]
    details: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct KnownPayment {
    #[schema(value_type = String, example = "pay_001")]
    payment_id: ItemId,
    #[schema(schema_with = words::payment_status)]
    status: String,
    #[schema(example = "125.50")]
    amount: String,
    #[schema(example = "USD")]
    currency: &'static str,
    debtor: PartyResponse,
    creditor: PartyResponse,
    #[schema(example = "invoice 42")]
    reference: Option<String>,
    /// Which bank; null if nobody knows any more.
    #[schema(example = "default")]
    gateway: Option<String>,
    /// As it was asked for; null means at once.
    execute_at: Option<Timestamp>,
    /// The file that it was taken in with, if any.
    #[schema(value_type = Option<String>)]
    batch_id: Option<BulkId>,
    #[schema(value_type = String, example = "default")]
    lane: LaneName,
    #[schema(schema_with = words::queue_status)]
    queue_status: QueueStatus,
    /// How often it has been executed on purpose, this time included.
    run: u32,
    /// How often it was sent; a person's word about it says this number.
    sends: u32,
    /// Its slot.
    scheduled_time: Timestamp,
    #[serde(flatten)]
    foreseen: Foreseen,
    #[schema(example = "2026-11-17T00:00:00Z")]
    deadline: Option<String>,
    /// What binds it, and when that lifts; null once it has ended.
    why_not_running: Option<String>,
    #[schema(value_type = String)]
    init_workflow_id: FlowId,
    #[schema(value_type = Option<String>)]
    exec_workflow_id: Option<FlowId>,
    /// The batch that the dispatcher last claimed it with; the audit log has it as `batchId`.
    #[schema(value_type = Option<String>, example = "BATCH-0f3a9c5e7d214b68")]
    dispatch_batch_id: Option<BatchId>,
    attempts: Vec<AttemptResponse>,
    timeline: Vec<timeline::Event>,
}

/// One exchange with the bank about a payment, or with the provider about an invoice.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Attempt)]
pub(super) struct AttemptResponse {
    #[schema(schema_with = words::attempt_kind)]
    kind: AttemptKind,
    #[schema(schema_with = words::attempt_state)]
    outcome: AttemptState,
    run: u32,
    /// What the bank, or the provider, knows it by.
    #[schema(example = "payment-pay_001")]
    idempotency_key: String,
    sent_at: Timestamp,
    answered_at: Option<Timestamp>,
    /// The beginning of the answer that says that it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    answer: Option<String>,
    /// Why it was not done, or why nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
}

/// Everything there is to say about a payment.
#[utoipa::path(
    get, path = "/payments/{id}", operation_id = "getPayment", tag = "payments",
    params(("id" = String, Path, description = "The payment's id.", example = "pay_001")),
    responses((status = 200, description = "The payment as it is now.", body = PaymentResponse), Finds),
)]
async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<PaymentResponse>, ApiError> {
    told(&app, &caller, &id).await
}

/// An id that a payment can have; another is no payment's.
pub(super) fn payment_id(id: &str) -> Result<ItemId, ApiError> {
    let known = check_item_id(id).map(|()| ItemId::new(id));
    known.map_err(|_| no_payment(id))
}

pub(super) fn no_payment(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no payment {id}"))
}

/// Everything there is to say to this caller about a payment now.
pub(super) async fn told(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<Json<PaymentResponse>, ApiError> {
    let item_id = payment_id(id)?;
    let Some(view) = app.store.item(&payments::item(&item_id)).await? else {
        return unrecorded(app, caller, item_id).await.map(Json);
    };
    let Waits { foreseen, why } = waits(app, &view).await?;
    let audit = app.store.audit(Some(&view.item), MOST_AUDITED).await?;
    let news = news::told_of(app, &view).await?;
    let payment = payments::document(&view)?;
    let sight = Sight::of(caller, &payment);
    let mut known = response(view, payment, &audit, &sight);
    known.foreseen = foreseen;
    known.why_not_running = why.map(|why| sight.text(&why));
    timeline::add(&mut known.timeline, news);
    for event in &mut known.timeline {
        event.what = sight.text(&event.what);
    }
    Ok(Json(PaymentResponse::Known(Box::new(known))))
}

/// What is said of a payment that has no record.
async fn unrecorded(app: &App, caller: &Caller, id: ItemId) -> Result<PaymentResponse, ApiError> {
    let payment_id = id.to_string();
    match app.intake.unrecorded(&id).await? {
        None => Err(no_payment(&payment_id)),
        Some(Unrecorded::Initializing(request)) => {
            let why = why_unplanned(app, &request).await;
            let sight = match serde_json::from_str(&request.document) {
                Ok(payment) => Sight::of(caller, &payment),
                Err(_) => Sight::WHOLE,
            };
            let status = PaymentStatus::Initializing;
            let response = initializing(&request, status, sight.text(&why));
            Ok(PaymentResponse::Initializing(response))
        }
        Some(Unrecorded::Cancelled(request)) => {
            let (status, why) = (PaymentStatus::Cancelled, "it was cancelled".to_owned());
            let response = initializing(&request, status, why);
            Ok(PaymentResponse::Initializing(response))
        }
        Some(Unrecorded::Refused(details)) => Ok(PaymentResponse::NotTaken(NotTakenPayment {
            payment_id,
            status: PaymentStatus::Rejected.as_str(),
            details,
        })),
    }
}

fn initializing(request: &RequestView, status: PaymentStatus, why: String) -> InitializingPayment {
    InitializingPayment {
        payment_id: request.id.to_string(),
        status: status.as_str(),
        amount: request.money.decimal(),
        currency: request.money.currency.code(),
        accepted_at: request.accepted_at,
        rescheduled_to: request.moved_to,
        tries: request.tries,
        why_not_running: why,
        init_workflow_id: payments::init_flow(request),
    }
}

fn response(
    view: ItemView,
    payment: PaymentRequest,
    audit: &[AuditEntry],
    sight: &Sight,
) -> KnownPayment {
    KnownPayment {
        timeline: timeline::timeline(&view, audit),
        gateway: payments::gateway(&view),
        batch_id: view.bulk(),
        debtor: sight.party(&payment.debtor),
        creditor: sight.party(&payment.creditor),
        reference: payment.reference,
        execute_at: payment.execute_at,
        sends: view.sends(),
        foreseen: Foreseen::default(),
        payment_id: view.item.id,
        status: view.status,
        amount: view.money.decimal(),
        currency: view.money.currency.code(),
        lane: view.lane,
        queue_status: view.queue_status,
        run: view.run,
        scheduled_time: view.slot,
        deadline: payment
            .deadline_given
            .or_else(|| view.deadline.map(|deadline| deadline.to_string())),
        why_not_running: None,
        init_workflow_id: view.init_flow,
        exec_workflow_id: view.exec_flow,
        dispatch_batch_id: view.dispatch_batch,
        attempts: view.attempts.iter().map(|it| attempt(it, sight)).collect(),
    }
}

pub(super) fn attempt(view: &AttemptView, sight: &Sight) -> AttemptResponse {
    let heard = Some(sight.text(&view.detail)).filter(|heard| !heard.is_empty());
    let (answer, reason) = match view.state {
        AttemptState::Done => (heard, None),
        AttemptState::Open
        | AttemptState::Refused
        | AttemptState::Declined
        | AttemptState::Retry
        | AttemptState::Unknown => (None, heard),
    };
    AttemptResponse {
        kind: view.kind,
        outcome: view.state,
        run: view.run,
        idempotency_key: view.key.clone(),
        sent_at: view.turn_at,
        answered_at: view.settled_at,
        answer: answer.map(|answer| answer.chars().take(ANSWER_CHARS).collect()),
        reason,
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(show))
}
