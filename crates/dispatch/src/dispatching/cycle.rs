//! What the dispatcher did: in one cycle, and in all cycles of a round together.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What one cycle did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cycle {
    pub claimed: u64,
    pub started: u64,
    pub failed: u64,
    /// The engine could not be reached: claims were given back.
    pub unreachable: bool,
    /// The kill switch is on, or another cycle of this type is running.
    pub skipped: bool,
    /// Until the next item comes into reach.
    pub next_in: Option<Duration>,
    /// The longest time until the next full cycle, as configured.
    pub interval: Option<Duration>,
}

/// What the cycles of one round did together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    pub cycles: u64,
    pub claimed: u64,
    pub started: u64,
    pub failed: u64,
    /// Cycles in which the engine could not be reached.
    pub unreachable: u64,
    /// Cycles in which nothing was claimed because the kill switch is on.
    pub skipped: u64,
}

impl Round {
    pub(crate) fn add(&mut self, cycle: &Cycle) {
        self.cycles += 1;
        self.claimed += cycle.claimed;
        self.started += cycle.started;
        self.failed += cycle.failed;
        self.unreachable += u64::from(cycle.unreachable);
        self.skipped += u64::from(cycle.skipped);
    }
}
