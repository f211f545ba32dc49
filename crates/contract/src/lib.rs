//! The contract of Tollgate's API, for the server that keeps it and for every client: the addresses with the role that
//! each needs ([`ROUTES`]), and the bodies of requests and answers. Types are named as the OpenAPI document names them.
//!
//! Words such as statuses are strings here, so that an older client reads the answers of a newer server; the document
//! lists them. The crate reads and writes nothing itself, and depends on no other crate of Tollgate.

#![deny(missing_docs)]

mod accounts;
mod archive;
mod audit;
mod banks;
mod calendars;
mod customers;
mod dead_letters;
mod erasures;
mod error;
mod events;
mod feeds;
mod forecasts;
mod held;
mod imports;
mod in_doubt;
mod invoices;
mod item_types;
mod items;
mod jobs;
mod lane_requests;
mod lanes;
mod needs_you;
mod nodes;
mod payments;
mod routes;
mod rules;
mod status_checks;
pub mod words;

pub use accounts::*;
pub use archive::*;
pub use audit::*;
pub use banks::*;
pub use calendars::*;
pub use customers::*;
pub use dead_letters::*;
pub use erasures::*;
pub use error::*;
pub use events::*;
pub use feeds::*;
pub use forecasts::*;
pub use held::*;
pub use imports::*;
pub use in_doubt::*;
pub use invoices::*;
pub use item_types::*;
pub use items::*;
pub use jobs::*;
pub use lane_requests::*;
pub use lanes::*;
pub use needs_you::*;
pub use nodes::*;
pub use payments::*;
pub use routes::{Needs, ROUTES, Role};
pub use rules::*;
pub use status_checks::*;

/// Every status of a payment.
pub const PAYMENT_STATUSES: [&str; 8] = [
    "INITIALIZING",
    "SCHEDULED",
    "ACCEPTED",
    "PROCESSING",
    "REJECTED",
    "IN_DOUBT",
    "CANCELLED",
    "FAILED",
];

/// Every status of an invoice.
pub const INVOICE_STATUSES: [&str; 5] = ["PENDING", "PAID", "FAILED", "IN_DOUBT", "CANCELLED"];

/// The actors of the audit log that are parts of Tollgate. Every other one is a person, or a system with a token.
pub const MACHINE_ACTORS: [&str; 15] = [
    "breaker",
    "checks",
    "configuration",
    "demo",
    "dispatcher",
    "feed",
    "payments",
    "reconciliation",
    "rules",
    "sender",
    "status-check",
    "storm",
    "sweep",
    "sweeper",
    "tollgate",
];
