//! The contract of Tollgate's API, for the server that keeps it and for every client: the addresses with the role that
//! each needs ([`ROUTES`]), and what the answers contain. Types are named as the OpenAPI document names them.
//!
//! Words such as statuses are strings here, so that an older client reads the answers of a newer server; the document
//! lists them. The crate reads and writes nothing itself, and depends on no other crate of Tollgate.

#![deny(missing_docs)]

mod routes;
pub mod words;

pub use routes::{Needs, ROUTES, Role};

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
