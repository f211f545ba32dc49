//! The embedded engine: durable flows on one node, with their memory in the store's `Flows` port.
//!
//! Flows run on one engine thread (they need not be `Send`), steps as tasks on the shared runtime.
//! It knows no domain and no SQL, and it does not wait for long: what must wait ends its flow.
//!
//! A crash at any line is put right by the next start. `take_node` raises the epoch, so that
//! whatever an old process still writes is refused, and makes the flows that were being run due
//! again; their journals turn finished steps into recorded results. What was running but not
//! journaled runs again: a step may run more than once, its result counts once.

mod children;
mod contained;
mod ctx;
mod handle;
mod journal;
mod loader;
mod local;
mod options;
mod progress;
mod registry;
mod room;
mod rows;
mod run;
mod service;
mod shared;
mod standby;
mod steps;
mod switch;
mod watchers;

pub use handle::Handle;
pub use options::Options;
pub use registry::Builder;
pub use service::{EmbeddedEngine, Ready, StartError};
pub use shared::Stop;
pub use standby::Standby;
pub use switch::Switch;
