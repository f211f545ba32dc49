//! `GET /payments/check-status`: the checks page by page, and how far one is with each gateway.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{CheckLine, Counted, Page, PageToken};
use tollgate_domains::status_checks::GatewayProgress;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::is_id;
use crate::App;
use crate::answer::error::ApiError;
use crate::answer::export::{List, rows};
use crate::answer::of::Of;
use crate::contract::refusals::{Finds, Reads};
use crate::request::extract::{Path, Query};
use crate::request::page::{self, NewestFirst, PageRequest};

impl Of<CheckLine> for contract::CheckLine {
    fn of(line: CheckLine) -> Self {
        Self {
            status: match (line.ended_at, line.failed) {
                (None, _) => "RUNNING".to_owned(),
                (Some(_), false) => "COMPLETED".to_owned(),
                (Some(_), true) => "FAILED".to_owned(),
            },
            workflow_id: line.check.to_string(),
            current_phase: line.phase.as_str().to_owned(),
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

/// Lists status checks that are still retained, newest first. With `format`, exports the whole list as a file.
#[utoipa::path(
    get, path = "/payments/check-status", operation_id = "listStatusChecks", tag = "status checks",
    params(NewestFirst),
    responses(
        (status = 200, description = "One page, or the whole list.", content(
            (contract::CheckList = "application/json"),
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
        return Ok(Json(contract::CheckList {
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
    async fn checks(
        &self,
        asked: &PageRequest,
    ) -> Result<Page<contract::CheckLine, PageToken>, ApiError> {
        let page = self.store.checks(asked.from.clone(), asked.limit).await?;
        Ok(page.map(contract::CheckLine::of))
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

impl Of<GatewayProgress> for contract::CheckGateway {
    fn of(progress: GatewayProgress) -> Self {
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
    responses((status = 200, description = "One page.", body = contract::CheckGateways), Finds),
)]
async fn gateways(
    State(app): State<App>,
    Path(workflow_id): Path<String>,
    Query(query): Query<GatewaysQuery>,
) -> Result<Json<contract::CheckGateways>, ApiError> {
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
    Ok(Json(contract::CheckGateways {
        gateways: page
            .items
            .into_iter()
            .map(contract::CheckGateway::of)
            .collect(),
        next: page.next,
    }))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(gateways))
}
