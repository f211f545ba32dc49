//! `GET /admin/nodes`: the processes on the store, and which of them leads.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::refusals::Door;
use crate::leadership::NodeView;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Nodes)]
struct NodesResponse {
    /// Raised with every change of the leader. Null on SQLite and on Temporal.
    #[schema(example = 7)]
    epoch: Option<i64>,
    /// Empty on Temporal, where every process may send.
    nodes: Vec<NodeResponse>,
}

/// One process, as the process that answers sees it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Node)]
struct NodeResponse {
    /// Host name and process id.
    #[schema(example = "pay-1/4711")]
    name: String,
    /// Where it listens.
    #[schema(example = "10.0.0.5:8090")]
    address: String,
    version: String,
    /// `leader`, `standby`, or `silent` if it has not shown itself for 3 seconds.
    #[schema(example = "standby")]
    role: &'static str,
    /// Whether this process has answered the request.
    this: bool,
    /// Seconds since it last showed itself, by the clock of the process that answers.
    last_seen_secs: f64,
    /// Why it cannot take over; null if it can.
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

/// The processes on this store, and which of them leads.
///
/// With the embedded engine on PostgreSQL one process leads and sends; the others stand by.
#[utoipa::path(
    get, path = "/admin/nodes", operation_id = "listNodes", tag = "service",
    responses((status = 200, description = "All processes, as seen within the last second.", body = NodesResponse), Door),
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
