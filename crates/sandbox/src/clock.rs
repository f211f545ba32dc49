//! The judge's own clock: monotonic time since the ledger was opened, anchored once to the wall.
//! It does not follow later steps of the wall clock, and it is the only place here that asks what
//! time it is.

use std::time::{Duration, Instant, SystemTime};

#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    wall_anchor: SystemTime,
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the judge must not read time from the clocks of those it judges"
    )]
    pub(crate) fn start() -> Self {
        Self {
            started: Instant::now(),
            wall_anchor: SystemTime::now(),
        }
    }

    /// Time since the start; never goes back.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// What the wall showed at the start.
    pub(crate) fn wall_anchor(&self) -> SystemTime {
        self.wall_anchor
    }
}
