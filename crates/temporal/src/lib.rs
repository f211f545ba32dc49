//! Temporal as an engine: one generic workflow for every flow and one generic activity for every
//! step, under their own names, and the `Engine` port over the client. A spike that proves the
//! port; the binary does not use it yet.
//!
//! The SDK's traits behind its macros are implemented by hand here, because the macros drop
//! generics; the SDK's version is pinned for that reason.

mod activity;
mod context;
mod engine;
mod join;
mod worker;
mod workflow;

pub use context::TemporalCtx;
pub use engine::{TemporalEngine, connect};
pub use worker::{Registered, RunningWorker};
