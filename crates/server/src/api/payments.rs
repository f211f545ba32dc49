//! `POST /payments` and `GET /payments/{id}`.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;
use serde_json::{Value, json};
use tollgate_core::Timestamp;
use tollgate_core::id::{FlowId, ItemId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{AttemptView, AuditEntry, ItemView, Placed, SettingKind};
use tollgate_dispatch::why_not_running;
use tollgate_domains::payments::{self, Accepted, PaymentRequest, PaymentStatus, Verdict};

use super::App;
use super::error::{ApiError, json_body};
use super::{news, timeline};

/// How long a caller waits for an answer if it does not say.
const DEFAULT_WAIT: Duration = Duration::from_secs(10);
const MAX_WAIT: Duration = Duration::from_mins(1);
/// So much of a payment's audit trail is part of its timeline, the newest.
const MOST_AUDITED: u32 = 200;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CreateResponse {
    payment_id: ItemId,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduled_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lane: Option<LaneName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meets_deadline: Option<bool>,
    init_workflow_id: FlowId,
}

async fn create(
    State(app): State<App>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    let body = json_body(&headers, body)?;
    let payment = PaymentRequest::parse(&body).map_err(ApiError::invalid)?;
    let id = payment.payment_id.clone();
    match app.intake.accept(payment, wait(&headers)).await? {
        Accepted::Initializing { init_flow } => {
            let body = CreateResponse {
                payment_id: id,
                status: PaymentStatus::Initializing.as_str(),
                scheduled_time: None,
                lane: None,
                meets_deadline: None,
                init_workflow_id: init_flow,
            };
            Ok((StatusCode::ACCEPTED, Json(body)).into_response())
        }
        Accepted::Answered(verdict) => answer(id, verdict),
    }
}

fn answer(id: ItemId, verdict: Verdict) -> Result<Response, ApiError> {
    match verdict {
        Verdict::Scheduled { placed, repeat } => {
            let status = if repeat {
                StatusCode::OK
            } else {
                StatusCode::CREATED
            };
            Ok((status, Json(scheduled(id, placed))).into_response())
        }
        Verdict::Conflict => Err(ApiError::conflict(format!(
            "payment {id} is known with other content; a changed payment needs an id of its own"
        ))),
        Verdict::Invalid(details) => Err(ApiError::invalid(details)),
        Verdict::Refused { rule, message } => {
            Err(ApiError::refused(BTreeMap::from([(rule, message)])))
        }
    }
}

fn scheduled(payment_id: ItemId, placed: Placed) -> CreateResponse {
    CreateResponse {
        payment_id,
        status: PaymentStatus::Scheduled.as_str(),
        scheduled_time: Some(placed.scheduled),
        lane: Some(placed.lane),
        meets_deadline: placed.meets_deadline,
        init_workflow_id: placed.init_flow,
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

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PaymentResponse {
    payment_id: ItemId,
    status: String,
    amount: String,
    currency: &'static str,
    lane: LaneName,
    queue_status: QueueStatus,
    run: u32,
    scheduled_time: Timestamp,
    /// When it will run as things stand; null while nobody can say, and once it has run.
    estimate: Option<Timestamp>,
    deadline: Option<Timestamp>,
    meets_deadline: Option<bool>,
    why_not_running: Option<String>,
    init_workflow_id: FlowId,
    exec_workflow_id: Option<FlowId>,
    attempts: Vec<AttemptResponse>,
    timeline: Vec<timeline::Event>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AttemptResponse {
    kind: AttemptKind,
    outcome: AttemptState,
    run: u32,
    sent_at: Timestamp,
    answered_at: Option<Timestamp>,
    /// Why it was not done, or why nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

async fn show(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    told(&app, &id).await
}

/// Everything there is to say about a payment now.
pub(super) async fn told(app: &App, id: &str) -> Result<Json<Value>, ApiError> {
    let item_id = ItemId::new(id);
    let Some(view) = app.store.item(&payments::item(&item_id)).await? else {
        if app.intake.is_initializing(&item_id).await? {
            let status = PaymentStatus::Initializing.as_str();
            return Ok(Json(json!({"paymentId": id, "status": status})));
        }
        return Err(ApiError::not_found(format!("there is no payment {id}")));
    };
    let now = app.store.now().await?;
    let lane = app.store.lane(&view.lane).await?;
    let enabled = dispatch_enabled(app).await?;
    let why = why_not_running(&view, lane.as_ref(), enabled, now);
    let estimate = match &lane {
        Some(lane) if enabled && view.queue_status == QueueStatus::Ready => {
            app.planner.estimate(&view, lane, now).await?
        }
        _ => None,
    };
    let audit = app.store.audit(Some(&view.item), MOST_AUDITED).await?;
    let news = news::told_of(app, &view).await?;
    let mut response = response(view, &audit, why, estimate);
    timeline::add(&mut response.timeline, news);
    Ok(Json(serde_json::to_value(response).unwrap_or_default()))
}

async fn dispatch_enabled(app: &App) -> Result<bool, ApiError> {
    let name = payments::item_type();
    let setting = app
        .store
        .setting(SettingKind::ItemType, name.as_str())
        .await?;
    let config = setting.and_then(|s| serde_json::from_str::<ItemTypeConfig>(&s.body_json).ok());
    Ok(config.is_some_and(|config| config.enabled))
}

fn response(
    view: ItemView,
    audit: &[AuditEntry],
    why: Option<String>,
    estimate: Option<Timestamp>,
) -> PaymentResponse {
    PaymentResponse {
        timeline: timeline::timeline(&view, audit),
        meets_deadline: view.deadline.map(|deadline| view.slot <= deadline),
        payment_id: view.item.id,
        status: view.status,
        amount: view.money.decimal(),
        currency: view.money.currency.code(),
        lane: view.lane,
        queue_status: view.queue_status,
        run: view.run,
        scheduled_time: view.slot,
        estimate,
        deadline: view.deadline,
        why_not_running: why,
        init_workflow_id: view.init_flow,
        exec_workflow_id: view.exec_flow,
        attempts: view.attempts.iter().map(attempt).collect(),
    }
}

fn attempt(view: &AttemptView) -> AttemptResponse {
    AttemptResponse {
        kind: view.kind,
        outcome: view.state,
        run: view.run,
        sent_at: view.turn_at,
        answered_at: view.settled_at,
        reason: (view.state != AttemptState::Done && !view.detail.is_empty())
            .then(|| view.detail.clone()),
    }
}

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/payments", post(create))
        .route("/payments/{id}", get(show))
}
