//! Adapters of the store ports. They hold SQL and no rule: every decision is made by `core`.

mod clock;
pub mod postgres;
pub mod sqlite;
mod telemetry;
mod value;

pub use clock::MovableTime;
