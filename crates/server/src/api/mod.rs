//! The HTTP API: a resource is a file, with its types, its handlers and its router.

mod accounts;
mod body;
mod calendars;
mod error;
mod forecast;
mod health;
mod in_doubt;
mod lanes;
mod payment_changes;
mod payments;
mod picture;
mod rate_limit;
mod timeline;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use tollgate_core::id::LaneName;
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::Store;
use tollgate_dispatch::Planner;
use tollgate_domains::payments::Intake;

use error::ApiError;

use crate::engines::Readiness;

/// The largest body of a single request.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// What handlers work with.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) intake: Arc<Intake>,
    pub(crate) planner: Arc<Planner>,
    /// Whether a payment in doubt is resolved by two persons only.
    pub(crate) two_persons: bool,
    /// The lane of the payments' bank.
    pub(crate) lane: LaneName,
    /// Whether flows can be started.
    pub(crate) engine: Readiness,
}

impl App {
    /// A lane by its name, the bank's if none is given.
    async fn lane_named(&self, name: Option<String>) -> Result<LaneInForce, ApiError> {
        let name = name.map_or_else(|| self.lane.clone(), LaneName::new);
        let lane = self.store.lane(&name).await?;
        lane.ok_or_else(|| ApiError::not_found(format!("there is no lane \"{name}\"")))
    }
}

/// For a process without the role: whoever looks after it still wants to know.
pub(crate) fn health_alone(app: App) -> Router {
    health::router()
        .fallback(|| async { ApiError::not_found("this process does not serve the API") })
        .with_state(app)
}

pub(crate) fn router(app: App) -> Router {
    Router::new()
        .merge(payments::router())
        .merge(payment_changes::router())
        .merge(rate_limit::router())
        .merge(forecast::router())
        .merge(calendars::router())
        .merge(accounts::router())
        .merge(lanes::router())
        .merge(in_doubt::router())
        .merge(health::router())
        .fallback(|| async { ApiError::not_found("there is nothing at this address") })
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(app)
}
