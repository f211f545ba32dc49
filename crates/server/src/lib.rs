//! Where domains, engine and store meet. Read `assemble.rs` first.

mod ages;
mod api;
mod archive;
mod assemble;
mod config;
mod descriptors;
mod door;
mod downstreams;
mod engines;
mod erasures;
mod jobs;
mod lane_activity;
mod lanes;
mod leadership;
mod needs_you;
mod retries;
mod rules;
mod services;
mod store;
mod telemetry;
mod topics;
mod totals;
mod write_check;

pub use api::openapi_json;
pub use assemble::Tollgate;
pub use config::{Config, Token, read_description, read_rules};
pub use descriptors::raise_descriptor_limit;
pub use downstreams::asking::ask_directly;
pub use downstreams::shown_request::shown_request;
pub use telemetry::Log;
pub use tollgate_downstream::{Description, SHIPPED};
