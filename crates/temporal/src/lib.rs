//! Temporal as an engine: one generic workflow for every flow and one generic activity for every
//! step, under their own names, and the `Engine` port over the client.
//!
//! The SDK's traits behind its macros are implemented by hand here, because the macros drop
//! generics; the SDK's version is pinned for that reason.

mod activity;
mod codec;
mod connect;
mod context;
mod engine;
mod join;
mod link;
mod queues;
mod replay;
mod schedules;
mod service;
mod starts;
mod worker;
mod workflow;

pub use codec::CodecKeys;
pub use connect::{ConnectError, Server, Tls};
pub use context::TemporalCtx;
pub use engine::TemporalEngine;
pub use queues::TaskQueues;
pub use replay::{Replay, record};
pub use schedules::{Recurring, Schedules};
pub use service::{Reach, TemporalService};
pub use worker::{Registered, RunningWorker, Size, WantedWorkers};
