//! Liveness, readiness and metrics.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::App;
use super::error::ApiError;
use crate::telemetry;

/// The process runs.
async fn live() -> Json<Value> {
    Json(json!({"status": "UP"}))
}

/// The store answers, and flows can be started.
async fn ready(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    app.store.lanes().await?;
    if app.engine.trouble().is_some() {
        let error = "the engine cannot be reached right now; the log says why";
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error));
    }
    Ok(Json(json!({"status": "UP"})))
}

/// For Prometheus; `/q/metrics` is where the seeds had it.
async fn metrics() -> impl IntoResponse {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    (
        [(header::CONTENT_TYPE, kind)],
        telemetry::recorder().render(),
    )
}

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics))
        .route("/q/metrics", get(metrics))
}
