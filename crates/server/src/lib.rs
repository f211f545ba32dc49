//! Where domains, engine and store meet. Read `assemble.rs` first.

mod api;
mod assemble;
mod banks;
mod config;
mod engines;
mod schedules;
mod telemetry;

pub use assemble::Tollgate;
pub use config::Config;
pub use telemetry::Log;
