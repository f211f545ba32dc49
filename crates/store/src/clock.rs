//! The one home of shared time on SQLite: the monotonic clock carries it on from what the wall clock
//! showed. Each reading compares the two, and when somebody has set the wall clock the store's time
//! follows it at once, forward and back: the gate takes that for a jump, as on PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tollgate_core::Timestamp;

use crate::value::micros;

/// The wall clock was set if it is further than this from where the monotonic clock says that it
/// should be. Both are slewed alike, so that only a step takes them apart.
const SMALLEST_STEP_US: i64 = 50_000;

#[derive(Debug, Clone)]
pub(crate) struct Clock {
    started: Instant,
    /// What the wall clock showed at the start; by now, as it has been set since.
    anchor_us: Arc<AtomicI64>,
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
        Self {
            started: Instant::now(),
            anchor_us: Arc::new(AtomicI64::new(wall_us())),
            moved,
        }
    }

    pub(crate) fn now_us(&self) -> i64 {
        let anchor = self.anchor_us.load(Ordering::SeqCst);
        let before = micros(self.started.elapsed());
        let wall = wall_us();
        let after = micros(self.started.elapsed());
        let anchor = match set_anchor(anchor, wall, before, after) {
            Some(set) => self.follow(anchor, set),
            None => anchor,
        };
        anchor + after + self.moved.offset_us()
    }

    /// Of several who see a step the first one is right.
    fn follow(&self, seen: i64, set: i64) -> i64 {
        let swapped =
            self.anchor_us
                .compare_exchange(seen, set, Ordering::SeqCst, Ordering::SeqCst);
        swapped.map_or_else(|theirs| theirs, |_| set)
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_microsecond(self.now_us()).unwrap_or(Timestamp::MAX)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the one home of shared time"
)]
fn wall_us() -> i64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    micros(since_epoch.unwrap_or_default())
}

/// The anchor after a step of the wall clock; none while there was no step. The wall clock was read
/// at some time between `before` and `after`: a thread that stood still meanwhile proves nothing.
fn set_anchor(anchor: i64, wall: i64, before: i64, after: i64) -> Option<i64> {
    let (earliest, latest) = (anchor + before, anchor + after);
    let is_set = wall < earliest - SMALLEST_STEP_US || wall > latest + SMALLEST_STEP_US;
    is_set.then_some(wall - after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_wall_clock_is_followed_and_a_pause_between_two_looks_is_none() {
        let (anchor, hour) = (1_800_000_000_000_000, 3_600_000_000);
        // What the wall clock is off by, and the two looks at the monotonic clock around it.
        for (off, before, after, followed) in [
            (0, 10, 20, false),
            (SMALLEST_STEP_US, 10, 20, false),
            (-SMALLEST_STEP_US, 10, 20, false),
            (2 * SMALLEST_STEP_US, 10, 20, true),
            (-2 * SMALLEST_STEP_US, 10, 20, true),
            (hour, 10, 20, true),
            (-hour, 10, 20, true),
            // The thread stood still for a second around the look.
            (500_000, 10, 1_000_010, false),
            (hour, 10, 1_000_010, true),
            (-hour, 10, 1_000_010, true),
        ] {
            let wall = anchor + before + off;
            let set = set_anchor(anchor, wall, before, after);
            assert_eq!(
                set.is_some(),
                followed,
                "off by {off} between {before} and {after}"
            );
            if let Some(set) = set {
                assert_eq!(set + after, wall, "the time is the wall clock's");
            }
        }
    }

    #[test]
    fn time_goes_on_from_the_wall_clock_after_it_was_set() {
        let clock = Clock::anchored_now(MovableTime::default());
        let theirs = clock.clone();
        // As if it had been two hours ahead at the start, and was set right since.
        clock.anchor_us.fetch_add(7_200_000_000, Ordering::SeqCst);
        let off = clock.now_us() - wall_us();
        assert!(off.abs() < SMALLEST_STEP_US, "{off} µs");
        let (one, other) = (clock.now_us(), theirs.now_us());
        assert!(
            (0..SMALLEST_STEP_US).contains(&(other - one)),
            "{one} {other}"
        );
    }
}
