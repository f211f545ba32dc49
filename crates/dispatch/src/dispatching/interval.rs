//! When the dispatcher's next full cycle is due: in between, it only looks.

use std::pin::Pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Sleep;

/// How long it is since the last full cycle.
pub(crate) struct Interval {
    length: Duration,
    timer: Pin<Box<Sleep>>,
}

impl Interval {
    pub(crate) fn over() -> Self {
        Self::of(Duration::ZERO)
    }
    fn of(length: Duration) -> Self {
        let timer = Box::pin(tokio::time::sleep(length));
        Self { length, timer }
    }
    pub(crate) fn is_over(&self) -> bool {
        self.length.is_zero() || self.timer.is_elapsed()
    }
    /// Until it is over, for so long at most, or until told to stop.
    pub(crate) async fn pause(&mut self, longest: Duration, stop: &mut watch::Receiver<bool>) {
        tokio::select! {
            () = tokio::time::sleep(longest.max(Duration::from_millis(1))) => {}
            () = self.timer.as_mut(), if !self.is_over() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
    /// Begins anew after a full cycle, and when its length was changed meanwhile.
    pub(crate) fn goes_on(&mut self, after_full_cycle: bool, length: Option<Duration>) {
        let length = length.unwrap_or(self.length);
        if after_full_cycle || length != self.length {
            *self = Self::of(length);
        }
    }
}
