//! Adapters of the store ports. They hold SQL and no rule: every decision is made by `core`.

mod clock;
pub mod postgres;
pub mod sqlite;
mod telemetry;

pub use clock::MovableTime;

/// What is said of a schema under whose version another one is known here. Until the first release
/// version 1 is edited in place.
const MADE_BY_ANOTHER_BUILD: &str = "was made by another build of the same version of tollgate; start that build, or, before the first release, make it anew";
