//! One folder per domain: its requests, flows, steps and wire format.
//! No SQL, no engine, no runtime: the outside is reached through the ports of `core`.

pub mod archived;
mod digest;
pub mod erasure;
mod fields;
pub mod invoices;
pub mod json;
pub mod notifications;
pub mod payments;
pub mod records;
pub mod status_checks;
mod steps;

pub(crate) use tollgate_expression as expression;
