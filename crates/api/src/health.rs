//! Liveness, readiness and metrics.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde::Serialize;
use tollgate_core::ports::StoreError;
use tollgate_operations::nodes::Role;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::answer::error::ApiError;
use crate::contract::refusals::{Door, Reads};

#[derive(Debug, Serialize, ToSchema)]
struct Health {
    #[schema(example = "UP")]
    status: &'static str,
}

const UP: Json<Health> = Json(Health { status: "UP" });

#[derive(Debug, Serialize, ToSchema)]
struct Ready {
    #[schema(example = "UP")]
    status: &'static str,
    /// `leader`: this process sends. `standby`: it serves the API and takes over when the leader
    /// ends. Absent on Temporal, where every process may send.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "leader")]
    role: Option<&'static str>,
    /// Why this standby cannot take over. Missing if it can.
    #[serde(rename = "cannotLead", skip_serializing_if = "Option::is_none")]
    #[schema(example = "gate.margin is 0.02 for the leader and 0.1 here")]
    cannot_lead: Option<String>,
}

/// Liveness: whether the process is running.
#[utoipa::path(
    get, path = "/health/live", operation_id = "isLive", tag = "service",
    responses((status = 200, description = "The process is running.", body = Health)),
)]
async fn live() -> Json<Health> {
    UP
}

/// Readiness: whether the store can be read and written, and flows can be started. Tests a write at
/// most once a second.
#[utoipa::path(
    get, path = "/health/ready", operation_id = "isReady", tag = "service",
    responses((status = 200, description = "Ready.", body = Ready), Reads),
)]
async fn ready(State(app): State<App>) -> Result<Json<Ready>, ApiError> {
    app.store.lanes().await.map_err(store_away)?;
    if let Some(why) = app.writes.trouble().await {
        tracing::warn!(why, "not ready");
        let error = "the store cannot be written; see the log";
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error));
    }
    if app.engine.trouble().is_some() {
        return Err(away("the engine"));
    }
    let role = app.nodes.map(|nodes| nodes.role());
    Ok(Json(Ready {
        status: "UP",
        role: role.as_ref().map(Role::as_str),
        cannot_lead: role.and_then(Role::cannot_lead),
    }))
}

/// Whoever asks has sent nothing that could be sent again.
fn store_away(error: StoreError) -> ApiError {
    match error {
        StoreError::Unavailable(why) | StoreError::Fenced(why) => {
            tracing::warn!(why, "not ready");
            away("the store")
        }
        other => other.into(),
    }
}

fn away(what: &str) -> ApiError {
    let error = format!("{what} cannot be reached; see the log");
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error)
}

/// Metrics for Prometheus.
#[utoipa::path(
    get, path = "/metrics", operation_id = "getMetrics", tag = "service",
    responses((status = 200, description = "The text format of Prometheus.", body = String), Door),
)]
async fn metrics(State(app): State<App>) -> impl IntoResponse {
    text(app.metrics)
}

/// Metrics for Prometheus, at the older path.
#[utoipa::path(
    get, path = "/q/metrics", operation_id = "getMetricsAtQ", tag = "service",
    responses((status = 200, description = "The text format of Prometheus.", body = String), Door),
)]
async fn q_metrics(State(app): State<App>) -> impl IntoResponse {
    text(app.metrics)
}

fn text(metrics: fn() -> String) -> impl IntoResponse {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], metrics())
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(live))
        .routes(routes!(ready))
        .routes(routes!(metrics))
        .routes(routes!(q_metrics))
}
