//! Stopping a lane and letting it go on: `/admin/lanes/{lane}/pause` and `/resume`, with a reason.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::post;
use axum::{Json, Router};
use serde::Deserialize;
use tollgate_core::id::LaneName;
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_core::ports::Author;

use super::App;
use super::error::{ApiError, json_body};
use super::rate_limit::ConfigResponse;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    reason: String,
}

type Body = Result<Bytes, BytesRejection>;

async fn pause(
    State(app): State<App>,
    Path(lane): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ConfigResponse>, ApiError> {
    let author = author(&headers, body)?;
    let pause = Pause {
        actor: author.actor.clone(),
        reason: author.reason.clone(),
    };
    change(&app, lane, Some(pause), author).await
}

async fn resume(
    State(app): State<App>,
    Path(lane): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ConfigResponse>, ApiError> {
    let author = author(&headers, body)?;
    change(&app, lane, None, author).await
}

async fn change(
    app: &App,
    lane: String,
    pause: Option<Pause>,
    author: Author,
) -> Result<Json<ConfigResponse>, ApiError> {
    let name = LaneName::new(lane);
    if app.store.lane(&name).await?.is_none() {
        return Err(ApiError::not_found(format!("there is no lane \"{name}\"")));
    }
    let change = LaneChange {
        pause: Some(pause),
        ..LaneChange::default()
    };
    Ok(Json(
        app.store.change_lane(&name, change, author).await?.into(),
    ))
}

/// Who stops a lane says why: the reason is what the next person reads.
fn author(headers: &HeaderMap, body: Body) -> Result<Author, ApiError> {
    let invalid = |what: String| ApiError::invalid(BTreeMap::from([("reason".to_owned(), what)]));
    let body: Reason =
        serde_json::from_value(json_body(headers, body)?).map_err(|e| invalid(e.to_string()))?;
    if body.reason.trim().is_empty() {
        return Err(invalid("must say why".to_owned()));
    }
    Ok(Author::new("api", body.reason))
}

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/admin/lanes/{lane}/pause", post(pause))
        .route("/admin/lanes/{lane}/resume", post(resume))
}
