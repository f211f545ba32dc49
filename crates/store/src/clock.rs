//! The one home of shared time on SQLite: the wall clock is read once, at the start, and the
//! monotonic clock carries it on. A wall clock that steps back moves nothing back.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tollgate_core::Timestamp;

use crate::value::micros;

#[derive(Debug, Clone)]
pub(crate) struct Clock {
    anchor_us: i64,
    started: Instant,
    moved: MovableTime,
}

/// Lets a test move the store's time.
#[derive(Debug, Clone, Default)]
pub struct MovableTime(Arc<AtomicI64>);

impl MovableTime {
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(micros(by), Ordering::SeqCst);
    }
    pub fn turn_back(&self, by: Duration) {
        self.0.fetch_sub(micros(by), Ordering::SeqCst);
    }
    pub(crate) fn offset_us(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one home of shared time"
    )]
    pub(crate) fn anchored_now(moved: MovableTime) -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            anchor_us: micros(since_epoch),
            started: Instant::now(),
            moved,
        }
    }

    pub(crate) fn now_us(&self) -> i64 {
        self.anchor_us + micros(self.started.elapsed()) + self.moved.0.load(Ordering::SeqCst)
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.now_us()).unwrap_or(Timestamp::MAX)
    }
}
