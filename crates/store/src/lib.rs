//! Adapters of the store ports. They hold SQL and no rule: every decision is made by `core`.

mod audit;
mod clock;
mod cold;
mod edges;
mod node;
pub mod postgres;
mod replan;
mod schema;
mod sql;
pub mod sqlite;
mod store_on;
mod telemetry;
mod urgency;
mod value;

pub use clock::MovableTime;
pub use store_on::StoreOn;
