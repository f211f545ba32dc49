//! What the embedded engine promises, through its ports and against a store in memory.

mod bench;
mod children;
mod conformance;
mod crashes;
mod flows;
mod memory;
mod standby;
mod starts;
mod steps;
