//! Where domains, engine and store meet. Read `assemble.rs` first.

mod api;
mod assemble;
mod banks;
mod config;
mod receivers;
mod telemetry;

pub use api::openapi_json;
pub use assemble::Tollgate;
pub use config::Config;
pub use telemetry::Log;
