//! Lanes, by the API's name: `/admin/rate-limit/config`.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use axum::routing::get;
use axum::{Json, Router};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::id::{LaneName, check_item_id};
use tollgate_core::lane::{LaneChange, Pause, Spread};
use tollgate_core::ports::{Author, LaneVersion};

use super::App;
use super::error::{ApiError, json_body};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigRequest {
    config_name: String,
    max_per_window: Option<u32>,
    window_size_secs: Option<u32>,
    max_per_second: Option<Decimal>,
    spread: Option<Spread>,
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigResponse {
    config_name: LaneName,
    max_per_window: u32,
    window_size_secs: u32,
    max_per_second: Decimal,
    spread: Spread,
    pause: Option<Pause>,
    version: i64,
    effective_at: Timestamp,
}

impl From<LaneVersion> for ConfigResponse {
    fn from(version: LaneVersion) -> Self {
        let lane = version.lane;
        Self {
            config_name: version.name,
            max_per_window: lane.max_per_window,
            window_size_secs: lane.window_size_secs,
            max_per_second: lane.max_per_second,
            spread: lane.spread,
            pause: lane.pause,
            version: version.version,
            effective_at: version.effective_at,
        }
    }
}

async fn list(State(app): State<App>) -> Result<Json<Vec<ConfigResponse>>, ApiError> {
    let lanes = app.store.lanes().await?;
    Ok(Json(lanes.into_iter().map(ConfigResponse::from).collect()))
}

async fn change(
    State(app): State<App>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<ConfigResponse>, ApiError> {
    let body = json_body(&headers, body)?;
    let request: ConfigRequest = serde_json::from_value(body)
        .map_err(|e| ApiError::invalid(BTreeMap::from([("body".to_owned(), e.to_string())])))?;
    check_item_id(&request.config_name).map_err(|why| {
        ApiError::invalid(BTreeMap::from([("configName".to_owned(), why.to_owned())]))
    })?;
    let change = LaneChange {
        max_per_window: request.max_per_window,
        window_size_secs: request.window_size_secs,
        max_per_second: request.max_per_second,
        spread: request.spread,
        pause: None,
    };
    let author = Author::new("api", request.reason.unwrap_or_default());
    let name = LaneName::new(request.config_name);
    Ok(Json(
        app.store.change_lane(&name, change, author).await?.into(),
    ))
}

pub(super) fn router() -> Router<App> {
    Router::new().route("/admin/rate-limit/config", get(list).post(change))
}
