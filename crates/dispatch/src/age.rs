//! How long ago something was read, by this node's own clock: for those who would otherwise ask the
//! store for the time before every send.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug, Clone, Copy)]
pub struct ReadAt(Instant);

impl ReadAt {
    /// To be taken before the reading begins.
    pub fn now() -> Self {
        Self(Instant::now())
    }

    pub fn is_within(self, age: Duration) -> bool {
        self.0.elapsed() < age
    }
}
