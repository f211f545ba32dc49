//! `GET /admin/nodes`: the processes on the store, and which of them leads.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::api::contract::refusals::Door;
use crate::leadership::NodeView;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Nodes)]
struct NodesResponse {
    /// Increases with every change of leader. Null on SQLite and on Temporal.
    #[schema(example = 7)]
    epoch: Option<i64>,
    /// Empty on Temporal, where every process may send.
    nodes: Vec<NodeResponse>,
}

/// One process, as seen by the process that answers.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Node)]
struct NodeResponse {
    /// Host name and process id.
    #[schema(example = "pay-1/4711")]
    name: String,
    /// Listen address.
    #[schema(example = "10.0.0.5:8090")]
    address: String,
    version: String,
    /// `leader`, `standby`, or `silent` after 3 seconds without a sign of life.
    #[schema(example = "standby")]
    role: &'static str,
    /// Whether this process answered the request.
    this: bool,
    /// Seconds since its last sign of life, by the clock of the process that answers.
    last_seen_secs: f64,
    /// Why this process cannot take over, or null.
    cannot_lead: Option<String>,
}

impl From<NodeView> for NodeResponse {
    fn from(node: NodeView) -> Self {
        let role = match (node.lives(), node.leads) {
            (true, true) => "leader",
            (true, false) => "standby",
            (false, _) => "silent",
        };
        let age = if node.is_this {
            0.0
        } else {
            node.seen_at.elapsed().as_secs_f64()
        };
        let showing = node.showing;
        Self {
            name: showing.name,
            address: showing.address,
            version: showing.version,
            role,
            this: node.is_this,
            last_seen_secs: (age * 10.0).round() / 10.0,
            cannot_lead: Some(showing.cannot_lead).filter(|why| !why.is_empty()),
        }
    }
}

/// Lists the processes that share this store, and shows which one is the leader.
///
/// With the embedded engine on PostgreSQL one process, the leader, sends; the others are standbys.
#[utoipa::path(
    get, path = "/admin/nodes", operation_id = "listNodes", tag = "service",
    responses((status = 200, description = "All processes. At most one second old.", body = NodesResponse), Door),
)]
async fn list(State(app): State<App>) -> Json<NodesResponse> {
    let seen = app.nodes.map(|nodes| nodes.seen()).unwrap_or_default();
    Json(NodesResponse {
        epoch: seen.epoch,
        nodes: seen.nodes.into_iter().map(Into::into).collect(),
    })
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}
