//! Windows: fixed stretches of a lane's time, aligned to the epoch, and how many items each can take.

use rust_decimal::Decimal;

use crate::gate::Pace;
use crate::lane::Lane;
use crate::{SignedDuration, Timestamp};

/// The lane's numbers, ready to be asked about windows.
#[derive(Debug, Clone, Copy)]
pub struct Windows {
    size_us: i64,
    max_per_window: u32,
    pace: Pace,
}

impl Windows {
    pub fn of(lane: &Lane, margin: Decimal) -> Self {
        Self {
            size_us: i64::from(lane.window_size_secs) * 1_000_000,
            max_per_window: lane.max_per_window,
            pace: lane.pace(margin),
        }
    }

    /// `T − (T mod size)`: the start of the window that holds `time`.
    pub fn start_of(&self, time: Timestamp) -> Timestamp {
        let us = time.as_microsecond();
        Timestamp::from_microsecond(us - us.rem_euclid(self.size_us)).unwrap_or(time)
    }

    pub fn end_of(&self, start: Timestamp) -> Timestamp {
        start + SignedDuration::from_micros(self.size_us)
    }

    /// How many items a window can take over the part of it that lies from `from` on: the plan,
    /// or the turns that really fall there, whichever is smaller.
    pub fn capacity(&self, start: Timestamp, from: Timestamp) -> u32 {
        let open = from.max(start);
        self.max_per_window
            .min(self.pace.turns_between(open, self.end_of(start)))
    }
}
