//! Adapters of the store ports. They hold SQL and no rule: every decision is made by `core`.

mod anew;
mod audit;
mod clock;
mod node;
pub mod postgres;
mod replan;
mod requests;
mod schema;
pub mod sqlite;
mod telemetry;
mod urgency;
mod value;

pub use clock::MovableTime;
