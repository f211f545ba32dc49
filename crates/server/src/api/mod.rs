//! The HTTP API: a resource is a file, with its types, its handlers and its router. Types and handlers
//! say what the document says of them.

mod access;
mod accounts;
mod acts;
mod adjust;
mod archive;
mod ask_banks;
mod audit;
mod bank_ask;
mod billing_schedules;
mod body;
mod bulk;
mod bulk_deadlines;
mod bulk_errors;
mod bulk_list;
mod bulk_since;
mod bulk_views;
mod calendar_body;
mod calendars;
mod certificate;
mod codes;
mod customers;
mod dead_letters;
mod document;
mod erasures;
mod error;
mod events;
mod export;
mod extract;
mod feeds;
mod forecast;
mod foreseen;
mod health;
mod held;
mod in_doubt;
mod in_doubt_ask;
mod in_doubt_list;
mod invoice_changes;
mod invoice_list;
mod invoice_newest;
mod invoice_occurrences;
mod invoices;
mod item_types;
mod job_list;
mod job_request;
mod job_views;
mod jobs;
mod lanes;
mod limits;
mod needs_you;
mod news;
mod nodes;
mod now;
mod origin;
mod page;
mod payment_body;
mod payment_changes;
mod payment_export;
mod payment_list;
mod payment_newest;
mod payment_search;
mod payments;
mod picture;
mod prefer;
mod rate_limit;
mod refusals;
mod request_id;
mod retention;
mod rules;
mod rules_body;
mod shape;
mod shift;
mod sight;
mod status_check_list;
mod status_checks;
mod storms;
mod timeline;
mod webhooks;
mod why;
mod words;

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

use crate::archive::{ExportUpkeep, Exports};
use crate::asking::Asking;
use crate::auth::Tokens;
use crate::config::{AskWhom, TypeRetention};
use crate::engines::Readiness;
use crate::erasures::Outside;
use crate::leadership::Nodes;
use crate::needs_you::NeedsYou;
use crate::pulse::Pulse;
use crate::totals::Totals;
use crate::write_check::WriteCheck;
use error::ApiError;

pub(crate) use access::Vouched;
pub use access::{Needs, ROUTES};
pub(crate) use bulk::Uploads;
pub(crate) use bulk_views::grouped;
pub use document::openapi_json;
pub(crate) use limits::{Bounds, bound};
pub(crate) use origin::{from_another_site, strange_host};

/// The largest body of a single request.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// What handlers work with.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) intake: Arc<Intake>,
    pub(crate) uploads: Arc<Uploads>,
    pub(crate) planner: Arc<Planner>,
    pub(crate) forecaster: Arc<Forecaster>,
    pub(crate) status_checks: Arc<StatusCheckService>,
    pub(crate) billing: Arc<Billing>,
    /// Who is told what becomes of payments.
    pub(crate) receivers: Arc<[Receiver]>,
    pub(crate) rules: Arc<RulesInForce>,
    pub(crate) checks: Arc<ChecksInForce>,
    pub(crate) routes: Arc<Routes<Bank>>,
    /// Asks a bank about a payment.
    pub(crate) asking: Arc<Asking>,
    /// Read anew when somebody asks for it.
    pub(crate) config_file: Option<PathBuf>,
    /// Who is asked about payments in doubt.
    pub(crate) ask: AskWhom,
    /// How long items stay where, as configured.
    pub(crate) retention: Arc<[TypeRetention]>,
    /// Whether a payment in doubt is resolved by two persons only.
    pub(crate) two_persons: bool,
    /// What an erasure does not reach.
    pub(crate) erasure_outside: Arc<[Outside]>,
    /// The lane of the payments' bank.
    pub(crate) lane: LaneName,
    pub(crate) pulse: Arc<Pulse>,
    pub(crate) totals: Arc<Totals>,
    /// Days of the archive as files.
    pub(crate) exports: Exports,
    pub(crate) export_upkeep: ExportUpkeep,
    /// Moves ended items when a person wants it now.
    pub(crate) archiver: Arc<Archiver>,
    pub(crate) needs_you: Arc<NeedsYou>,
    /// Whether anything can be written.
    pub(crate) writes: Arc<WriteCheck>,
    /// Whether flows can be started.
    pub(crate) engine: Readiness,
    /// Who leads; none on Temporal.
    pub(crate) nodes: Option<Nodes>,
}

impl App {
    /// A lane by its name, the bank's if none is given.
    async fn lane_named(&self, name: Option<String>) -> Result<LaneInForce, ApiError> {
        let name = name.map_or_else(|| self.lane.clone(), LaneName::new);
        let lane = self.store.lane(&name).await?;
        lane.ok_or_else(|| ApiError::not_found(format!("there is no lane \"{name}\"")))
    }
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
    document::base()
        .merge(payments::router())
        .merge(payment_list::router())
        .merge(payment_changes::router())
        .merge(bulk::router())
        .merge(bulk_list::router())
        .merge(status_checks::router())
        .merge(status_check_list::router())
        .merge(customers::router())
        .merge(invoices::router())
        .merge(invoice_list::router())
        .merge(invoice_changes::router())
        .merge(invoice_occurrences::router())
        .merge(billing_schedules::router())
        .merge(rate_limit::router())
        .merge(forecast::router())
        .merge(lanes::router())
        .merge(adjust::router())
        .merge(storms::router())
        .merge(bank_ask::router())
        .merge(now::router())
        .merge(nodes::router())
        .merge(calendars::router())
        .merge(item_types::router())
        .merge(retention::router())
        .merge(needs_you::router())
        .merge(held::router())
        .merge(in_doubt::router())
        .merge(in_doubt_list::router())
        .merge(in_doubt_ask::router())
        .merge(rules::router())
        .merge(jobs::router())
        .merge(erasures::router())
        .merge(dead_letters::router())
        .merge(feeds::router())
        .merge(events::router())
        .merge(archive::router())
        .merge(accounts::router())
        .merge(audit::router())
        .merge(certificate::router())
        .merge(health::router())
        .merge(document::router())
}

/// Everything the API has, each address for whom the table of `access.rs` says.
pub(crate) fn router(app: App, tokens: Arc<Tokens>, bounds: Bounds) -> Router {
    let (resources, _) = resources().split_for_parts();
    let resources = resources
        .merge(document::page())
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
        .layer(from_fn_with_state(tokens, access::admit))
        .layer(from_fn_with_state(bounds, limits::bound))
        .layer(from_fn(request_id::identify))
        .with_state(app)
}
