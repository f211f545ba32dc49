//! What the embedded engine promises, through its ports and against a store in memory.

mod conformance;
mod bench;
mod children;
mod crashes;
mod flows;
mod memory;
mod starts;
mod steps;
