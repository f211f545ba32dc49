//! Where domains, engine and store meet. Read `assemble.rs` first.

mod api;
mod archive;
mod asking;
mod assemble;
mod auth;
mod banks;
mod check_services;
mod config;
mod console;
mod descriptors;
#[cfg(feature = "temporal")]
mod dispatch_schedules;
mod door;
mod engines;
mod erasures;
mod events;
#[cfg(feature = "kafka")]
mod feeds;
#[cfg(not(feature = "kafka"))]
mod without_feeds;
#[cfg(not(feature = "kafka"))]
use without_feeds as feeds;
mod jobs;
mod lanes;
mod leadership;
mod listener;
mod needs_you;
#[cfg(feature = "temporal")]
mod on_temporal;
#[cfg(not(feature = "temporal"))]
mod without_temporal;
#[cfg(not(feature = "temporal"))]
use without_temporal as on_temporal;
mod places;
mod providers;
mod pulse;
mod questions;
mod receivers;
#[cfg(test)]
#[cfg(feature = "temporal")]
mod replays;
mod retries;
mod rules;
mod services;
mod sessions;
mod shown_request;
mod telemetry;
mod tls;
mod totals;
mod watches;
mod write_check;
mod wrong_tokens;

pub use api::{Needs, ROUTES, openapi_json};
pub use asking::{BankAnswer, ask_directly};
pub use assemble::Tollgate;
pub use auth::Role;
pub use config::{Config, Token, read_description, read_rules};
pub use descriptors::raise_descriptor_limit;
pub use shown_request::shown_request;
pub use telemetry::Log;
pub use tollgate_downstream::{Description, SHIPPED};
