//! The HTTP API: a resource is a file or a folder, with its types, its handlers and its router. Types and handlers
//! say what the document says of them. `request`, `answer` and `contract` are what resources share; `door` is
//! what a request passes before.

mod accounts;
mod acts;
mod answer;
mod archive;
mod audit;
mod bank_ask;
mod calendars;
mod contract;
mod dead_letters;
mod door;
mod erasures;
mod events;
mod feeds;
mod health;
mod held;
mod imports;
mod in_doubt;
mod invoices;
mod item_types;
mod items;
mod jobs;
mod lanes;
mod needs_you;
mod nodes;
mod payments;
mod request;
mod retention;
mod rules;
mod status_checks;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use tollgate_core::id::LaneName;
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::Store;
use tollgate_dispatch::{Archiver, Forecaster, Planner};
use tollgate_domains::invoices::{Billing, ChecksInForce};
use tollgate_domains::notifications::Receiver;
use tollgate_domains::payments::{Bank, DEFAULT_GATEWAY, Intake, Routes, RulesInForce};
use tollgate_domains::status_checks::StatusCheckService;
use utoipa_axum::router::OpenApiRouter;

use answer::error::ApiError;
use tollgate_config::{AskWhom, TypeRetention};
use tollgate_operations::archive::{ExportUpkeep, Exports};
use tollgate_operations::downstreams::asking::Asking;
use tollgate_operations::erasures::Outside;
use tollgate_operations::lane_activity::Activity;
use tollgate_operations::needs_you::NeedsYou;
use tollgate_operations::nodes::Nodes;
use tollgate_operations::readiness::Readiness;
use tollgate_operations::totals::Totals;
use tollgate_operations::write_check::WriteCheck;

pub use contract::document::openapi_json;
pub use door::auth::Tokens;
pub use door::{Door, tls};
pub use imports::Uploads;
pub(crate) use request::limits::{Bounds, bound};
pub(crate) use request::origin::{from_another_site, strange_host};

/// The largest body of a single request.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// What handlers work with.
#[derive(Clone)]
pub struct App {
    pub store: Arc<dyn Store>,
    pub intake: Arc<Intake>,
    pub uploads: Arc<Uploads>,
    pub planner: Arc<Planner>,
    pub forecaster: Arc<Forecaster>,
    pub status_checks: Arc<StatusCheckService>,
    pub billing: Arc<Billing>,
    /// Who is told what becomes of payments.
    pub receivers: Arc<[Receiver]>,
    pub rules: Arc<RulesInForce>,
    pub checks: Arc<ChecksInForce>,
    pub routes: Arc<Routes<Bank>>,
    /// Asks a bank about a payment.
    pub asking: Arc<Asking>,
    /// Read anew when somebody asks for it.
    pub config_file: Option<PathBuf>,
    /// Who is asked about payments in doubt.
    pub ask: AskWhom,
    /// How long items stay where, as configured.
    pub retention: Arc<[TypeRetention]>,
    /// Whether a payment in doubt is resolved by two persons only.
    pub two_persons: bool,
    /// What an erasure does not reach.
    pub erasure_outside: Arc<[Outside]>,
    /// The lane of the payments' bank.
    pub lane: LaneName,
    pub activity: Arc<Activity>,
    pub totals: Arc<Totals>,
    /// Days of the archive as files.
    pub exports: Exports,
    pub export_upkeep: ExportUpkeep,
    /// Moves ended items when a person wants it now.
    pub archiver: Arc<Archiver>,
    pub needs_you: Arc<NeedsYou>,
    /// Whether anything can be written.
    pub writes: Arc<WriteCheck>,
    /// Whether flows can be started.
    pub engine: Readiness,
    /// What Prometheus reads.
    pub metrics: fn() -> String,
    /// Who leads; none on Temporal.
    pub nodes: Option<Nodes>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").finish_non_exhaustive()
    }
}

impl App {
    /// A lane by its name, the bank's if none is given.
    async fn lane_named(&self, name: Option<String>) -> Result<LaneInForce, ApiError> {
        let name = name.map_or_else(|| self.lane.clone(), LaneName::new);
        let lane = self.store.lane(&name).await?;
        lane.ok_or_else(|| no_lane(&name))
    }
}

fn no_lane(name: &LaneName) -> ApiError {
    ApiError::not_found(format!("there is no lane \"{name}\""))
}

impl App {
    /// Where no gateways are configured, their names are the bank's own, and any may be asked for.
    fn gateway_named(&self, name: &str) -> Result<(), ApiError> {
        let others = &self.routes.gateways;
        if others.is_empty() || name == DEFAULT_GATEWAY || others.contains_key(name) {
            return Ok(());
        }
        let names: Vec<&str> = std::iter::once(DEFAULT_GATEWAY)
            .chain(others.keys().map(String::as_str))
            .collect();
        Err(ApiError::not_found(format!(
            "unknown gateway {name:?}; configured: {}",
            names.join(", ")
        )))
    }
}

/// Every resource. What is not here is not served, and what is here is in the document.
fn resources() -> OpenApiRouter<App> {
    contract::document::base()
        .merge(payments::router())
        .merge(imports::router())
        .merge(status_checks::router())
        .merge(invoices::router())
        .merge(lanes::router())
        .merge(bank_ask::router())
        .merge(nodes::router())
        .merge(calendars::router())
        .merge(item_types::router())
        .merge(retention::router())
        .merge(needs_you::router())
        .merge(held::router())
        .merge(in_doubt::router())
        .merge(rules::router())
        .merge(jobs::router())
        .merge(erasures::router())
        .merge(dead_letters::router())
        .merge(feeds::router())
        .merge(events::router())
        .merge(archive::router())
        .merge(accounts::router())
        .merge(audit::router())
        .merge(health::router())
        .merge(contract::document::router())
}

/// Everything the API has, each address for whom the contract's table says.
pub(crate) fn router(app: App, tokens: Arc<Tokens>, bounds: Bounds) -> Router {
    let (resources, _) = resources().split_for_parts();
    let resources = resources
        .merge(contract::document::page())
        .fallback(|| async { ApiError::not_found("no such path") });
    bounded(resources, app, tokens, bounds)
}

/// For a process without the role: whoever looks after it still wants to know.
pub(crate) fn health_alone(app: App, tokens: Arc<Tokens>, bounds: Bounds) -> Router {
    let (health, _) = health::router().split_for_parts();
    let elsewhere = || async { ApiError::not_found("this process does not serve the API") };
    bounded(health.fallback(elsewhere), app, tokens, bounds)
}

fn bounded(routes: Router<App>, app: App, tokens: Arc<Tokens>, bounds: Bounds) -> Router {
    routes
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed(None) })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(from_fn_with_state(tokens, request::access::admit))
        .layer(from_fn_with_state(bounds, request::limits::bound))
        .layer(from_fn(request::request_id::identify))
        .with_state(app)
}
