//! Where domains, engine and store meet. Read `assemble.rs` first.

mod api;
mod assemble;
mod banks;
mod config;
mod telemetry;

pub use assemble::Tollgate;
pub use config::{Config, read_rules};
