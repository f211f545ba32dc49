//! Where domains, engine, store and API meet. Read `assemble.rs` first.

mod assemble;
mod check;
mod descriptors;
mod downstreams;
mod engines;
mod lanes;
mod leadership;
mod retries;
mod services;
mod store;
mod telemetry;
mod topics;

pub use assemble::Tollgate;
pub use check::problems;
pub use descriptors::raise_descriptor_limit;
pub use telemetry::Log;
pub use tollgate_api::openapi_json;
pub use tollgate_config::{Config, Token, read_description, read_rules};
pub use tollgate_downstream::{Description, SHIPPED};
pub use tollgate_operations::downstreams::asking::ask_directly;
pub use tollgate_operations::downstreams::shown_request;
