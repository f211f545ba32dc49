//! The processes on a store.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The processes that share the store.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// Increases with every change of leader. Null on SQLite and on Temporal.
    #[schema(example = 7)]
    pub epoch: Option<i64>,
    /// Empty on Temporal, where every process may send.
    pub nodes: Vec<Node>,
}

/// One process, as seen by the process that answers.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Host name and process id.
    #[schema(example = "pay-1/4711")]
    pub name: String,
    /// Listen address.
    #[schema(example = "10.0.0.5:8090")]
    pub address: String,
    /// Version of Tollgate.
    pub version: String,
    /// `leader`, `standby`, or `silent` after 3 seconds without a heartbeat.
    #[schema(example = "standby")]
    pub role: String,
    /// Whether this process answered the request.
    pub this: bool,
    /// Seconds since its last heartbeat, by the clock of the process that answers.
    pub last_seen_secs: f64,
    /// Why this process cannot take over, or null.
    pub cannot_lead: Option<String>,
}
