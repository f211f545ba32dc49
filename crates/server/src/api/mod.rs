//! The HTTP API: a resource is a file, with its types, its handlers and its router.

mod accounts;
mod error;
mod health;
mod lanes;
mod payments;
mod rate_limit;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use tollgate_core::id::LaneName;
use tollgate_core::ports::Store;
use tollgate_domains::payments::Intake;

use error::ApiError;

/// The largest body of a single request.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// What handlers work with.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) intake: Arc<Intake>,
    /// The lane of the payments' bank.
    pub(crate) lane: LaneName,
}

pub(crate) fn router(app: App) -> Router {
    Router::new()
        .merge(payments::router())
        .merge(rate_limit::router())
        .merge(accounts::router())
        .merge(lanes::router())
        .merge(health::router())
        .fallback(|| async { ApiError::not_found("there is nothing at this address") })
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(app)
}
