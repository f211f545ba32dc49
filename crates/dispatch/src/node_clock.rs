//! The one home of node time: maps a turn on the shared clock to this node's monotonic clock.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_core::ports::{SharedClock, StoreResult};

/// One look at both clocks. Half the round trip is the uncertainty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    shared: Timestamp,
    local: Instant,
    pub(crate) uncertainty: Duration,
}

impl Sample {
    pub(crate) async fn take(clock: &(impl SharedClock + ?Sized)) -> StoreResult<Self> {
        let asked = Instant::now();
        let shared = clock.now().await?;
        let half = asked.elapsed() / 2;
        Ok(Self {
            shared,
            local: asked + half,
            uncertainty: half,
        })
    }

    /// When a shared time comes, on this node's clock.
    pub(crate) fn local(&self, shared: Timestamp) -> Instant {
        let ahead = shared.duration_since(self.shared);
        if ahead.is_negative() {
            return self
                .local
                .checked_sub(ahead.unsigned_abs())
                .unwrap_or(self.local);
        }
        self.local + ahead.unsigned_abs()
    }
}
