//! `GET /payments/check-status`: the checks page by page, and how far one is with each gateway.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{CheckLine, Counted, Page, PageToken};
use tollgate_domains::status_checks::GatewayProgress;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::is_id;
use crate::api::App;
use crate::api::answer::error::ApiError;
use crate::api::answer::export::{List, rows};
use crate::api::contract::refusals::{Finds, Reads};
use crate::api::contract::words;
use crate::api::request::extract::{Path, Query};
use crate::api::request::page::{self, NewestFirst, PageRequest};

/// Status checks, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CheckList)]
struct ListResponse {
    checks: Vec<LineResponse>,
    /// Page token: pass it as `after`. Null on the last page.
    next: Option<String>,
    /// Page token: pass it as `before`. Null on the first page.
    previous: Option<String>,
    /// Number of status checks in the whole list, counted up to 10,000.
    count: u64,
    /// Whether there are more than `count`.
    at_least: bool,
}

/// One status check of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CheckLine)]
struct LineResponse {
    #[schema(value_type = String)]
    workflow_id: FlowId,
    /// As its row tells it; one whose workflow is gone without a word is told as failed by its own
    /// address only.
    #[schema(schema_with = words::check_status)]
    status: &'static str,
    #[schema(schema_with = words::check_phase)]
    current_phase: &'static str,
    total_payments: u32,
    gateways_identified: u32,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
}

impl From<CheckLine> for LineResponse {
    fn from(line: CheckLine) -> Self {
        Self {
            status: match (line.ended_at, line.failed) {
                (None, _) => "RUNNING",
                (Some(_), false) => "COMPLETED",
                (Some(_), true) => "FAILED",
            },
            workflow_id: line.check,
            current_phase: line.phase.as_str(),
            total_payments: line.total,
            gateways_identified: line.gateways,
            started_at: line.opened_at,
            ended_at: line.ended_at,
        }
    }
}

const STATUS_CHECKS: List = List {
    name: "status-checks",
    columns: &[
        "workflowId",
        "status",
        "currentPhase",
        "totalPayments",
        "gatewaysIdentified",
        "startedAt",
        "endedAt",
    ],
};

/// Lists status checks that are still retained, newest first. Or exports the whole list as a file.
#[utoipa::path(
    get, path = "/payments/check-status", operation_id = "listStatusChecks", tag = "status checks",
    params(NewestFirst),
    responses(
        (status = 200, description = "One page, or the whole list.", content(
            (ListResponse = "application/json"),
            (String = "text/csv"),
            (String = "application/x-ndjson"),
        )),
        Reads,
    ),
)]
async fn list(
    State(app): State<App>,
    Query(query): Query<NewestFirst>,
) -> Result<Response, ApiError> {
    let asked = query.read()?;
    let Some(format) = asked.format else {
        let page = app.checks(&asked).await?;
        let length = app.length(Counted::StatusChecks).await?;
        return Ok(Json(ListResponse {
            checks: page.items,
            next: page.next.map(|next| next.to_string()),
            previous: page.previous.map(|previous| previous.to_string()),
            count: length.count,
            at_least: length.at_least,
        })
        .into_response());
    };
    let page = move |asked: PageRequest| {
        let app = app.clone();
        async move {
            let page = app.checks(&asked).await?;
            Ok((rows(&page.items)?, asked.on(page.next)))
        }
    };
    STATUS_CHECKS.whole(format, asked, page).await
}

impl App {
    async fn checks(&self, asked: &PageRequest) -> Result<Page<LineResponse, PageToken>, ApiError> {
        let page = self.store.checks(asked.from.clone(), asked.limit).await?;
        Ok(page.map(LineResponse::from))
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct GatewaysQuery {
    /// Page token: the `next` of the previous page.
    after: Option<u32>,
    /// Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Gateways of a status check, in the order of its payments.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CheckGateways)]
struct GatewaysResponse {
    /// Empty while payments are being looked up.
    gateways: Vec<GatewayResponse>,
    /// Page token: pass it as `after`. Null on the last page.
    next: Option<u32>,
}

/// Progress of a status check at one gateway.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CheckGateway)]
struct GatewayResponse {
    #[schema(example = "stripe")]
    gateway: String,
    chunks_total: u32,
    /// Finished chunks, successful or not.
    chunks_completed: u32,
    /// Chunks with at least one failure.
    chunks_failed: u32,
}

impl From<GatewayProgress> for GatewayResponse {
    fn from(progress: GatewayProgress) -> Self {
        Self {
            gateway: progress.gateway,
            chunks_total: progress.chunks_total,
            chunks_completed: progress.chunks_completed,
            chunks_failed: progress.chunks_failed,
        }
    }
}

/// Progress of a status check by gateway.
#[utoipa::path(
    get, path = "/payments/check-status/{workflow_id}/gateways", operation_id = "listStatusCheckGateways",
    tag = "status checks",
    params(
        ("workflow_id" = String, Path, description = "The `workflowId` that the start returned."),
        GatewaysQuery,
    ),
    responses((status = 200, description = "One page.", body = GatewaysResponse), Finds),
)]
async fn gateways(
    State(app): State<App>,
    Path(workflow_id): Path<String>,
    Query(query): Query<GatewaysQuery>,
) -> Result<Json<GatewaysResponse>, ApiError> {
    let limit = page::limit(query.limit)?;
    let check = FlowId::new(&workflow_id);
    let found = if is_id(&workflow_id) {
        app.status_checks
            .gateways(&check, query.after, limit)
            .await?
    } else {
        None
    };
    let missing = || ApiError::not_found(format!("there is no status check {workflow_id}"));
    let page = found.ok_or_else(missing)?;
    Ok(Json(GatewaysResponse {
        gateways: page.items.into_iter().map(GatewayResponse::from).collect(),
        next: page.next,
    }))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(gateways))
}
