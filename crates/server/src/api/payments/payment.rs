//! One payment as the API shows it: `GET /payments/{id}`.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::{Map, Value};
use tollgate_core::Timestamp;
use tollgate_core::id::{BatchId, BulkId, FlowId, ItemId, LaneName, check_item_id};
use tollgate_core::item::QueueStatus;
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{AttemptView, AuditEntry, ItemView, RequestView};
use tollgate_domains::archived::{archived, in_a_file};
use tollgate_domains::payments::{self, PaymentRequest, PaymentStatus, Unrecorded};
use utoipa::ToSchema;

use super::news;
use crate::api::App;
use crate::api::answer::error::ApiError;
use crate::api::answer::sight::{PartyResponse, Sight};
use crate::api::answer::source::Source;
use crate::api::contract::refusals::Finds;
use crate::api::contract::words;
use crate::api::items::foreseen::Foreseen;
use crate::api::items::timeline;
use crate::api::items::why::{Waits, waits, why_unplanned};
use crate::api::request::extract::Path;
use crate::door::auth::Caller;

/// At most this much of a bank's answer is shown.
const ANSWER_CHARS: usize = 500;
/// At most this much of a payment's audit trail is part of its timeline, the newest.
const MOST_AUDITED: u32 = 200;

/// A payment. `kind` says which of the three it is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Payment, discriminator(property_name = "kind", mapping(
    ("planned" = "#/components/schemas/PlannedPayment"),
    ("pending" = "#/components/schemas/PendingPayment"),
    ("refused" = "#/components/schemas/RefusedPayment"),
)))]
pub(crate) enum PaymentResponse {
    Known(Box<KnownPayment>),
    Initializing(InitializingPayment),
    NotTaken(NotTakenPayment),
}

/// A payment that was accepted and has no slot yet, or was cancelled before it got one.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PendingPayment)]
pub(crate) struct InitializingPayment {
    #[schema(schema_with = words::pending_kind)]
    kind: &'static str,
    payment_id: String,
    #[schema(schema_with = words::pending)]
    status: &'static str,
    #[schema(example = "125.50")]
    amount: String,
    #[schema(example = "USD")]
    currency: &'static str,
    accepted_at: Timestamp,
    /// Time set by `reschedule`, or null.
    rescheduled_to: Option<Timestamp>,
    /// Number of attempts to assign a slot.
    tries: u32,
    /// Why it has no slot yet, and when Tollgate tries again.
    why_not_running: String,
    #[schema(value_type = String, example = "init-payment-pay_001")]
    init_workflow_id: FlowId,
}

/// A payment that was refused, possibly after a 202. The id can be used again for a corrected payment.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RefusedPayment)]
pub(crate) struct NotTakenPayment {
    #[schema(schema_with = words::refused_kind)]
    kind: &'static str,
    payment_id: String,
    #[schema(schema_with = words::rejected)]
    status: &'static str,
    /// Errors by field name, or rule messages by rule name.
    #[schema(example = json!({"distinct_accounts": "debtor and creditor are the same account"}))]
    details: BTreeMap<String, String>,
}

/// A payment with a slot.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PlannedPayment)]
pub(crate) struct KnownPayment {
    #[schema(schema_with = words::planned_kind)]
    kind: &'static str,
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
    /// Gateway (bank). Null if it is no longer known.
    #[schema(example = "default")]
    gateway: Option<String>,
    /// Requested time. Null means immediately.
    execute_at: Option<Timestamp>,
    /// Import that the payment came from, if any.
    #[schema(value_type = Option<String>)]
    batch_id: Option<BulkId>,
    #[schema(value_type = String, example = "default")]
    lane: LaneName,
    #[schema(schema_with = words::queue_status)]
    queue_status: QueueStatus,
    /// Current run, counted from 1. Each return to the queue starts a new run.
    run: u32,
    /// Number of sends so far. Pass it as `sends` when you resolve the payment.
    sends: u32,
    /// Slot: the planned time.
    scheduled_time: Timestamp,
    #[serde(flatten)]
    foreseen: Foreseen,
    #[schema(example = "2026-11-17T00:00:00Z")]
    deadline: Option<String>,
    #[schema(schema_with = words::run_or_hold)]
    on_missed_deadline: &'static str,
    #[schema(schema_with = words::metadata)]
    metadata: Option<Map<String, Value>>,
    /// Why the payment is not running and until when. Null when it has ended.
    why_not_running: Option<String>,
    #[schema(value_type = String)]
    init_workflow_id: FlowId,
    #[schema(value_type = Option<String>)]
    exec_workflow_id: Option<FlowId>,
    /// The dispatcher's last batch with this item; `batchId` in the audit log.
    #[schema(value_type = Option<String>, example = "BATCH-0f3a9c5e7d214b68")]
    dispatch_batch_id: Option<BatchId>,
    attempts: Vec<AttemptResponse>,
    timeline: Vec<timeline::Event>,
    source: Source,
    /// The day on which it ended, in UTC, if this answer comes from the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "2026-11-16")]
    archived: Option<String>,
}

/// One exchange with the bank about a payment, or with the payment provider about an invoice.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Attempt)]
pub(crate) struct AttemptResponse {
    #[schema(schema_with = words::attempt_kind)]
    kind: AttemptKind,
    #[schema(schema_with = words::attempt_state)]
    outcome: AttemptState,
    run: u32,
    /// Idempotency key of the request.
    #[schema(example = "payment-pay_001")]
    idempotency_key: String,
    sent_at: Timestamp,
    answered_at: Option<Timestamp>,
    /// Start of the answer that confirms the payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    answer: Option<String>,
    /// Why it was not done, or why the outcome is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    reason: Option<String>,
}

/// One payment with its slot, estimate, attempts and timeline.
#[utoipa::path(
    get, path = "/payments/{id}", operation_id = "getPayment", tag = "payments",
    params(("id" = String, Path, description = "The payment's id.", example = "pay_001")),
    responses((status = 200, description = "The current payment.", body = PaymentResponse), Finds),
)]
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<PaymentResponse>, ApiError> {
    shown(&app, &caller, &id).await
}

/// An id that a payment can have; another is no payment's.
pub(crate) fn payment_id(id: &str) -> Result<ItemId, ApiError> {
    let known = check_item_id(id).map(|()| ItemId::new(id));
    known.map_err(|_| no_payment(id))
}

pub(crate) fn no_payment(id: &str) -> ApiError {
    ApiError::not_found(format!("there is no payment {id}"))
}

/// Everything there is to say to this caller about a payment now.
pub(crate) async fn shown(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<Json<PaymentResponse>, ApiError> {
    let item_id = payment_id(id)?;
    let Some(view) = app.store.item(&payments::item(&item_id)).await? else {
        return unrecorded(app, caller, item_id).await.map(Json);
    };
    let Waits { foreseen, why } = waits(app, &view).await?;
    let source = app.source_of(&view).await?;
    let audit = app.store.audit(Some(&view.item), MOST_AUDITED).await?;
    let news = news::told_of(app, &view).await?;
    let payment = payments::document(&view)?;
    let sight = Sight::of(caller, &payment);
    let mut known = response(view, payment, &audit, &sight);
    known.foreseen = foreseen;
    known.source = source;
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
        None => Err(nowhere(app, &id).await?),
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
            kind: "refused",
            payment_id,
            status: PaymentStatus::Rejected.as_str(),
            details,
        })),
    }
}

/// It was never taken in, or it is in a file of the archive.
async fn nowhere(app: &App, id: &ItemId) -> Result<ApiError, ApiError> {
    let known = archived(&*app.store, &payments::item(id), "").await?;
    Ok(known.map_or_else(
        || no_payment(id.as_str()),
        |known| ApiError::gone(in_a_file("payment", id, &known)),
    ))
}

fn initializing(request: &RequestView, status: PaymentStatus, why: String) -> InitializingPayment {
    InitializingPayment {
        kind: "pending",
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
    // All fields by name: a new one must be shown, or left out here for a reason.
    let PaymentRequest {
        payment_id: _, // as in the view
        money: _,
        debtor,
        creditor,
        execute_at,
        deadline: _, // the view has the one that counts
        deadline_given,
        hold_if_late,
        gateway: _, // where it goes, which a route may have chosen
        reference,
        metadata,
    } = payment;
    KnownPayment {
        kind: "planned",
        timeline: timeline::timeline(&view, audit),
        gateway: payments::gateway(&view),
        batch_id: view.bulk(),
        debtor: sight.party(&debtor),
        creditor: sight.party(&creditor),
        reference,
        execute_at,
        on_missed_deadline: if hold_if_late { "hold" } else { "run" },
        metadata: metadata.map(|metadata| sight.object(metadata)),
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
        deadline: deadline_given.or_else(|| view.deadline.map(|deadline| deadline.to_string())),
        why_not_running: None,
        init_workflow_id: view.init_flow,
        exec_workflow_id: view.exec_flow,
        dispatch_batch_id: view.dispatch_batch,
        attempts: view.attempts.iter().map(|it| attempt(it, sight)).collect(),
        source: Source::HOT,
        archived: view.archived.map(|from| from.day.to_string()),
    }
}

pub(crate) fn attempt(view: &AttemptView, sight: &Sight) -> AttemptResponse {
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
