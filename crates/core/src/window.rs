//! Windows: fixed stretches of a lane's time, aligned to the epoch, and how many items each can take.

use rust_decimal::Decimal;

use crate::gate::Pace;
use crate::lane::Lane;
use crate::open_time::{OpenTime, Stretch};
use crate::{SignedDuration, Timestamp};

/// The last moment that can be written as microseconds and read again.
pub const END_OF_TIME: Timestamp = Timestamp::constant(253_402_207_200, 0);

/// The lane's numbers and hours, ready to be asked about windows.
#[derive(Debug, Clone)]
pub struct Windows {
    size_us: i64,
    max_per_window: u32,
    pace: Pace,
    open: OpenTime,
}

/// What is open of a window, from some moment on.
#[derive(Debug, Clone)]
pub(crate) struct OpenPart {
    stretches: Vec<Stretch>,
    pub(crate) capacity: u32,
}

impl Windows {
    pub fn of(lane: &Lane, margin: Decimal, open: OpenTime) -> Self {
        Self {
            size_us: i64::from(lane.window_size_secs) * 1_000_000,
            max_per_window: lane.max_per_window,
            pace: lane.pace(margin),
            open,
        }
    }

    /// `T − (T mod size)`: the start of the window that holds `time`.
    pub fn start_of(&self, time: Timestamp) -> Timestamp {
        let us = time.as_microsecond();
        Timestamp::from_microsecond(us - us.rem_euclid(self.size_us)).unwrap_or(time)
    }

    pub fn end_of(&self, start: Timestamp) -> Timestamp {
        start
            .checked_add(SignedDuration::from_micros(self.size_us))
            .map_or(END_OF_TIME, |end| end.min(END_OF_TIME))
    }

    /// How many windows lie between a moment and a window that was found for it.
    pub fn windows_between(&self, from: Timestamp, window: Timestamp) -> i64 {
        (window.as_microsecond() - self.start_of(from).as_microsecond()) / self.size_us
    }

    /// How many items a window can take over the open part of it that lies from `from` on: the
    /// plan, or the turns that really fall there, whichever is smaller.
    pub fn capacity(&self, start: Timestamp, from: Timestamp) -> u32 {
        self.open_part(start, from).capacity
    }

    /// The first moment at or after `time` that is open. `None` if there is none.
    pub fn opens_at(&self, time: Timestamp) -> Option<Timestamp> {
        let opens = if self.open.is_always() {
            Some(time)
        } else {
            self.open.stretch_from(time).map(|open| open.from.max(time))
        };
        // Nothing lies after the end of time, and whoever searched there would not return.
        opens.filter(|opens| *opens < END_OF_TIME)
    }

    pub(crate) fn open_part(&self, start: Timestamp, from: Timestamp) -> OpenPart {
        let (from, to) = (from.max(start), self.end_of(start));
        let stretches: Vec<Stretch> = self.open.within(from, to).filter_map(in_micros).collect();
        let turns = stretches
            .iter()
            .map(|open| self.pace.turns_between(open.from, open.to))
            .fold(0, u32::saturating_add);
        OpenPart {
            stretches,
            capacity: self.max_per_window.min(turns),
        }
    }
}

/// Slots are kept to the microsecond, and none may lie before its time: what is less than one is
/// left out.
fn in_micros(open: Stretch) -> Option<Stretch> {
    let below = open.from.subsec_nanosecond().rem_euclid(1000);
    let up = SignedDuration::from_nanos(i64::from((1000 - below) % 1000));
    let from = open.from.checked_add(up).ok()?;
    (from < open.to).then_some(Stretch { from, ..open })
}

impl OpenPart {
    /// The moment at `part.0 / part.1` of the open time.
    pub(crate) fn moment(&self, part: (u32, u32)) -> Option<Timestamp> {
        let length = |s: &Stretch| i128::from(s.to.as_microsecond() - s.from.as_microsecond());
        let total: i128 = self.stretches.iter().map(length).sum();
        let mut offset = total * i128::from(part.0) / i128::from(part.1.max(1));
        for stretch in &self.stretches {
            if offset < length(stretch) {
                let micros = i64::try_from(offset).ok()?;
                return Some(stretch.from + SignedDuration::from_micros(micros));
            }
            offset -= length(stretch);
        }
        // `u32::MAX` of `u32::MAX`: the last microsecond.
        let last = self.stretches.last()?;
        Some(last.to - SignedDuration::from_micros(1))
    }
}
