//! Liveness, readiness and metrics.

use axum::extract::State;
use axum::http::header;
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

/// The store answers.
async fn ready(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    app.store.lanes().await?;
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
