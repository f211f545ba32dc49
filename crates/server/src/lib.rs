//! Where domains, engine and store meet. Read `assemble.rs` first.

mod api;
mod assemble;
mod auth;
mod banks;
mod config;
mod listener;
mod telemetry;
mod tls;

pub use api::{Needs, ROUTES};
pub use assemble::Tollgate;
pub use auth::Role;
pub use config::{Config, Token};
