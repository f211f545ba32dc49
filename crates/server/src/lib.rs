//! Where domains, engine and store meet. Read `assemble.rs` first.

mod api;
mod assemble;
mod config;

pub use assemble::Tollgate;
pub use config::Config;
