//! Status checks: `POST /payments/check-status` and the state of one, as the contract writes them; `list.rs` lists them.

pub(crate) mod list;

use axum::Json;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tollgate_contract as contract;
use tollgate_core::id::FlowId;
use tollgate_domains::status_checks::{
    self as checks, FailedChunk, ProgressInfo, Report, ReportStatus, Stage, StartError,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::App;
use crate::answer::error::{ApiError, internal, json_body, unavailable};
use crate::answer::of::Of;
use crate::contract::refusals::{Reads, Starts};
use crate::request::body::Body;
use crate::request::extract::Path;

/// Ten thousand ids of the longest kind fit twice.
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;
const PREFIX: &str = "payment-check-";

impl Of<ProgressInfo> for contract::CheckProgress {
    fn of(progress: ProgressInfo) -> Self {
        Self {
            total_payments: progress.total_payments,
            gateways_identified: progress.gateways_identified,
            chunks_total: progress.chunks_total,
            chunks_completed: progress.chunks_completed,
            chunks_failed: progress.chunks_failed,
            current_phase: progress.current_phase.as_str().to_owned(),
        }
    }
}

impl Of<FailedChunk> for contract::FailedChunk {
    fn of(failed: FailedChunk) -> Self {
        Self {
            chunk_index: failed.chunk_index,
            payment_ids: failed.payment_ids,
            error: failed.error,
            stage: match failed.stage {
                Stage::Idb => "IDB".to_owned(),
                Stage::Pgi => "PGI".to_owned(),
            },
        }
    }
}

impl Of<checks::CheckStatusResult> for contract::CheckResult {
    fn of(result: checks::CheckStatusResult) -> Self {
        let failed = result.failed.into_iter().map(|(gateway, chunks)| {
            let chunks = chunks.into_iter().map(contract::FailedChunk::of).collect();
            (gateway, chunks)
        });
        Self {
            successful: result.successful,
            failed: failed.collect(),
            gateway_lookup_failed: result.gateway_lookup_failed,
        }
    }
}

impl Of<(String, Report)> for contract::CheckStatus {
    fn of((workflow_id, report): (String, Report)) -> Self {
        let (status, result, error) = match report.status {
            ReportStatus::Running => ("RUNNING", None, None),
            ReportStatus::Completed(result) => ("COMPLETED", Some(result), None),
            ReportStatus::Failed(error) => ("FAILED", None, Some(error)),
        };
        Self {
            workflow_id,
            status: status.to_owned(),
            progress: Some(contract::CheckProgress::of(report.progress)),
            result: result.map(contract::CheckResult::of),
            error,
        }
    }
}

fn not_found(workflow_id: String) -> contract::CheckStatus {
    contract::CheckStatus {
        workflow_id,
        status: "NOT_FOUND".to_owned(),
        progress: None,
        result: None,
        error: None,
    }
}

/// Starts a status check of up to 10,000 payments in the background.
///
/// Tollgate looks up each payment, groups the payments by gateway, and notifies and queries each gateway.
#[utoipa::path(
    post, path = "/payments/check-status", operation_id = "startStatusCheck", tag = "status checks",
    request_body = contract::CheckStatusRequest,
    responses((status = 202, description = "The status check has started.", body = contract::CheckStatusStart), Starts,
        (status = 400, description = "The request is invalid; `details` names each field.", body = contract::CheckStatusError),
    ),
)]
async fn start(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = json_body(&headers, body).map_err(|error| error.with_limit("3 MiB").bare())?;
    let ids = checks::payment_ids(&body).map_err(|details| ApiError::invalid(details).bare())?;
    let workflow_id = new_id();
    let started = app
        .status_checks
        .start(&FlowId::new(&workflow_id), ids)
        .await;
    started.map_err(|error| not_started(&workflow_id, error))?;
    let status = "STARTED".to_owned();
    let answer = contract::CheckStatusStart {
        workflow_id,
        status,
    };
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

/// Nobody has used it, and nobody can guess it.
pub(super) fn new_id() -> String {
    format!("{PREFIX}{}", Uuid::new_v4())
}

/// What is no id of a check is nobody's, without asking the store.
pub(super) fn is_id(text: &str) -> bool {
    let uuid = text.strip_prefix(PREFIX);
    uuid.is_some_and(|uuid| Uuid::try_parse(uuid).is_ok())
}

pub(super) fn not_started(id: &str, error: StartError) -> ApiError {
    match error {
        StartError::Known => ApiError::conflict(format!("{id} exists already")),
        StartError::Unavailable(why) => unavailable(&why),
        StartError::Failed(why) => internal(&why),
    }
}

/// Progress and result of a status check.
#[utoipa::path(
    get, path = "/payments/check-status/{workflow_id}", operation_id = "getStatusCheck", tag = "status checks",
    params(("workflow_id" = String, Path, description = "The `workflowId` that the start returned.")),
    responses(
        (status = 200, description = "The status check.", body = contract::CheckStatus),
        (status = 404, description = "The status check is unknown, or its retention has ended.", body = contract::CheckStatus),
        Reads,
    ),
)]
async fn show(
    State(app): State<App>,
    Path(workflow_id): Path<String>,
) -> Result<Response, ApiError> {
    let report = if is_id(&workflow_id) {
        app.status_checks.report(&FlowId::new(&workflow_id)).await?
    } else {
        None
    };
    Ok(match report {
        Some(report) => Json(contract::CheckStatus::of((workflow_id, report))).into_response(),
        None => {
            let answer = not_found(workflow_id);
            (StatusCode::NOT_FOUND, Json(answer)).into_response()
        }
    })
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(start))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .routes(routes!(show))
        .merge(list::router())
}
