//! One payment as the API shows it: `GET /payments/{id}`.

use axum::Json;
use axum::extract::State;
use tollgate_contract as contract;
use tollgate_core::id::{ItemId, check_item_id};
use tollgate_core::outcome::AttemptState;
use tollgate_core::ports::{AttemptView, AuditEntry, ItemView, RequestView};
use tollgate_domains::archived::{archived, in_a_file};
use tollgate_domains::payments::{self, PaymentRequest, PaymentStatus, Unrecorded};

use super::news;
use crate::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::answer::sight::Sight;
use crate::answer::source::Source;
use crate::contract::refusals::Finds;
use crate::door::auth::Caller;
use crate::items::timeline;
use crate::items::why::{Waits, waits, why_unplanned};
use crate::request::extract::Path;

/// At most this much of a bank's answer is shown.
const ANSWER_CHARS: usize = 500;
/// At most this much of a payment's audit trail is part of its timeline, the newest.
const MOST_AUDITED: u32 = 200;

/// One payment with its slot, estimate, attempts and timeline.
#[utoipa::path(
    get, path = "/payments/{id}", operation_id = "getPayment", tag = "payments",
    params(("id" = String, Path, description = "The payment's id.", example = "pay_001")),
    responses((status = 200, description = "The current payment.", body = contract::Payment), Finds),
)]
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<contract::Payment>, ApiError> {
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
) -> Result<Json<contract::Payment>, ApiError> {
    let item_id = payment_id(id)?;
    let item = payments::item(&item_id);
    let mut view = app.store.item(&item).await?;
    if view.is_none() {
        if let Some(request) = app.intake.unrecorded(&item_id).await? {
            return Ok(Json(unrecorded(app, caller, item_id, request).await));
        }
        // It may have been planned between these two looks. A request never comes back, so a third look is the last.
        view = app.store.item(&item).await?;
    }
    let Some(view) = view else {
        return Err(nowhere(app, &item_id).await?);
    };
    let Waits { foreseen, why } = waits(app, &view).await?;
    let source = app.source_of(&view).await?;
    let audit = app.store.audit(Some(&view.item), MOST_AUDITED).await?;
    let news = news::told_of(app, &view).await?;
    let payment = payments::document(&view)?;
    let sight = Sight::of(caller, &payment);
    let mut known = response(view, payment, &audit, &sight);
    known.foreseen = foreseen;
    known.source = contract::AnswerSource::of(source);
    known.why_not_running = why.map(|why| sight.text(&why));
    timeline::add(&mut known.timeline, news);
    for event in &mut known.timeline {
        event.what = sight.text(&event.what);
    }
    Ok(Json(contract::Payment::Known(Box::new(known))))
}

/// What is said of a payment that has no record.
async fn unrecorded(
    app: &App,
    caller: &Caller,
    id: ItemId,
    request: Unrecorded,
) -> contract::Payment {
    match request {
        Unrecorded::Initializing(request) => {
            let why = why_unplanned(app, &request).await;
            let sight = match serde_json::from_str(&request.document) {
                Ok(payment) => Sight::of(caller, &payment),
                Err(_) => Sight::WHOLE,
            };
            let status = PaymentStatus::Initializing;
            let response = initializing(&request, status, sight.text(&why));
            contract::Payment::Initializing(response)
        }
        Unrecorded::Cancelled(request) => {
            let (status, why) = (PaymentStatus::Cancelled, "it was cancelled".to_owned());
            let response = initializing(&request, status, why);
            contract::Payment::Initializing(response)
        }
        Unrecorded::Refused(details) => contract::Payment::NotTaken(contract::RefusedPayment {
            kind: "refused".to_owned(),
            payment_id: id.to_string(),
            status: PaymentStatus::Rejected.as_str().to_owned(),
            details,
        }),
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

fn initializing(
    request: &RequestView,
    status: PaymentStatus,
    why: String,
) -> contract::PendingPayment {
    contract::PendingPayment {
        kind: "pending".to_owned(),
        payment_id: request.id.to_string(),
        status: status.as_str().to_owned(),
        amount: request.money.decimal(),
        currency: request.money.currency.code().to_owned(),
        accepted_at: request.accepted_at,
        rescheduled_to: request.moved_to,
        tries: request.tries,
        why_not_running: why,
        init_workflow_id: payments::init_flow(request).to_string(),
    }
}

fn response(
    view: ItemView,
    payment: PaymentRequest,
    audit: &[AuditEntry],
    sight: &Sight,
) -> contract::PlannedPayment {
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
    contract::PlannedPayment {
        kind: "planned".to_owned(),
        timeline: timeline::timeline(&view, audit),
        gateway: payments::gateway(&view),
        batch_id: view.bulk().map(|bulk| bulk.to_string()),
        debtor: sight.party(&debtor),
        creditor: sight.party(&creditor),
        reference,
        execute_at,
        on_missed_deadline: if hold_if_late { "hold" } else { "run" }.to_owned(),
        metadata: metadata.map(|metadata| sight.object(metadata)),
        sends: view.sends(),
        foreseen: contract::Foreseen::default(),
        payment_id: view.item.id.to_string(),
        status: view.status,
        amount: view.money.decimal(),
        currency: view.money.currency.code().to_owned(),
        lane: view.lane.to_string(),
        queue_status: view.queue_status.to_string(),
        run: view.run,
        scheduled_time: view.slot,
        deadline: deadline_given.or_else(|| view.deadline.map(|deadline| deadline.to_string())),
        why_not_running: None,
        init_workflow_id: view.init_flow.to_string(),
        exec_workflow_id: view.exec_flow.map(|flow| flow.to_string()),
        dispatch_batch_id: view.dispatch_batch.map(|batch| batch.to_string()),
        attempts: view.attempts.iter().map(|it| attempt(it, sight)).collect(),
        source: contract::AnswerSource::of(Source::HOT),
        archived: view.archived.map(|from| from.day.to_string()),
    }
}

pub(crate) fn attempt(view: &AttemptView, sight: &Sight) -> contract::Attempt {
    let heard = Some(sight.text(&view.detail)).filter(|heard| !heard.is_empty());
    let (answer, reason) = match view.state {
        AttemptState::Done => (heard, None),
        AttemptState::Open
        | AttemptState::Refused
        | AttemptState::Declined
        | AttemptState::Retry
        | AttemptState::Unknown => (None, heard),
    };
    contract::Attempt {
        kind: view.kind.as_str().to_owned(),
        outcome: view.state.as_str().to_owned(),
        run: view.run,
        idempotency_key: view.key.clone(),
        sent_at: view.turn_at,
        answered_at: view.settled_at,
        answer: answer.map(|answer| answer.chars().take(ANSWER_CHARS).collect()),
        reason,
    }
}
