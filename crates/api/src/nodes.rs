//! `GET /admin/nodes`: the processes on the store, and which of them leads.

use axum::Json;
use axum::extract::State;
use tollgate_contract as contract;
use tollgate_operations::nodes::NodeView;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::answer::of::Of;
use crate::contract::refusals::Door;

impl Of<NodeView> for contract::Node {
    fn of(node: NodeView) -> Self {
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
            role: role.to_owned(),
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
    responses((status = 200, description = "All processes. At most one second old.", body = contract::Nodes), Door),
)]
async fn list(State(app): State<App>) -> Json<contract::Nodes> {
    let seen = app.nodes.map(|nodes| nodes.seen()).unwrap_or_default();
    Json(contract::Nodes {
        epoch: seen.epoch,
        nodes: seen.nodes.into_iter().map(contract::Node::of).collect(),
    })
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}
