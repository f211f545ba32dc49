//! Liveness and readiness.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};

use super::App;
use super::error::ApiError;

/// The process runs.
async fn live() -> Json<Value> {
    Json(json!({"status": "UP"}))
}

/// The store answers.
async fn ready(State(app): State<App>) -> Result<Json<Value>, ApiError> {
    app.store.lanes().await?;
    Ok(Json(json!({"status": "UP"})))
}

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
}
