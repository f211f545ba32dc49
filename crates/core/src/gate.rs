//! The gate's arithmetic: how far apart turns lie, and which turns a block of waiting attempts gets.
//!
//! Turns are evenly spaced, so there is no burst: a token bucket with burst B lets R + B − 1
//! through in a second. The margin is what lateness, clock error and the network may use up.

use std::time::Duration;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use crate::{SignedDuration, Timestamp};

/// Turns of all nodes together reach at most this far ahead, so that a change takes effect within
/// this time everywhere.
pub const HORIZON: Duration = Duration::from_millis(250);

/// After a jump of the shared clock, nothing is sent for this long.
pub const SETTLE_AFTER_JUMP: Duration = Duration::from_secs(1);

/// No turn is used longer than this after it was given: it lies within the horizon, or at the end
/// of the quiet second, and is met within the largest tolerance.
pub const LATEST_USE: Duration = SETTLE_AFTER_JUMP.saturating_add(MAX_TOLERANCE);

/// The share of the limit that is kept free: 2 % is 20 ms of every second.
pub const DEFAULT_MARGIN: Decimal = Decimal::from_parts(2, 0, 0, false, 2);

/// A turn missed by more than this is dropped, never used late.
pub const DEFAULT_TOLERANCE: Duration = Duration::from_millis(8);

/// The largest tolerance that the largest margin has room for.
pub const MAX_TOLERANCE: Duration = Duration::from_millis(250);

/// The distance between two turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    spacing_us: i64,
}

impl Pace {
    /// `1 / (floor(rate) × (1 − margin))`; below one a second, one send per 1/rate seconds.
    /// Rounded up to a microsecond, so that rounding never sends faster.
    pub fn of(max_per_second: Decimal, margin: Decimal) -> Self {
        let rate = if max_per_second < Decimal::ONE {
            max_per_second
        } else {
            max_per_second.floor() * (Decimal::ONE - margin)
        };
        let spacing = (Decimal::from(1_000_000) / rate).ceil();
        Self {
            spacing_us: spacing.to_i64().unwrap_or(i64::MAX / 4),
        }
    }

    pub fn spacing(self) -> SignedDuration {
        SignedDuration::from_micros(self.spacing_us)
    }

    /// How many turns fall into `[from, to)`, counted on one grid from the epoch on, so that
    /// neighbouring windows lose nothing to rounding.
    pub fn turns_between(self, from: Timestamp, to: Timestamp) -> u32 {
        let before = |t: Timestamp| -(-t.as_microsecond()).div_euclid(self.spacing_us);
        u32::try_from((before(to) - before(from)).max(0)).unwrap_or(u32::MAX)
    }

    /// How many turns fall into a stretch of time.
    pub fn turns_in(self, time: Duration) -> u32 {
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        u32::try_from(micros / self.spacing_us).unwrap_or(u32::MAX)
    }
}

/// What the shared truth says when a block of turns is taken.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// The last turn ever given on this lane.
    pub last_turn: Option<Timestamp>,
    /// The shared clock, read after the lane was locked.
    pub now: Timestamp,
    /// How long the commit may take before the first turn is due.
    pub lead: Duration,
    /// From here on the lane is closed.
    pub closes_at: Timestamp,
}

/// The turns of a lane from a moment on, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Turns {
    spacing: SignedDuration,
    next: Timestamp,
    horizon: Timestamp,
    closes_at: Timestamp,
    /// After a jump of the clock one turn is given beyond the horizon: it brings the cursor back.
    may_bring_back: bool,
}

impl Turns {
    pub fn from(pace: Pace, moment: Moment) -> Self {
        let Moment {
            last_turn,
            now,
            lead,
            closes_at,
        } = moment;
        let spacing = pace.spacing();
        // A cursor further ahead than anyone may reserve belongs to another timeline of the clock. A
        // small step back is waited for: it must not give the same time twice.
        let jumped = last_turn.is_some_and(|last| last > now + 2 * SETTLE_AFTER_JUMP);
        let next = match last_turn {
            Some(_) if jumped => now + SETTLE_AFTER_JUMP,
            Some(last) => (last + spacing).max(now + lead),
            None => now + lead,
        };
        Self {
            spacing,
            next,
            horizon: now + HORIZON,
            closes_at,
            may_bring_back: jumped,
        }
    }

    /// The turn of an attempt that was planned for then, never before; `None` if it lies beyond the horizon
    /// and the attempt must ask again. The turn stays free until it is taken.
    pub fn offer(&self, planned: Timestamp) -> Option<Timestamp> {
        let turn = self.next.max(planned);
        let within = turn <= self.horizon || (self.may_bring_back && planned <= self.horizon);
        (within && turn < self.closes_at).then_some(turn)
    }

    /// Takes a turn that was offered.
    pub fn take(&mut self, turn: Timestamp) {
        self.next = turn + self.spacing;
        self.may_bring_back = false;
    }
}

/// The exact times for waiting attempts, in their order; `None` for those that must ask again.
pub fn give_turns(pace: Pace, moment: Moment, planned: &[Timestamp]) -> Vec<Option<Timestamp>> {
    let mut turns = Turns::from(pace, moment);
    let give = |planned: &Timestamp| turns.offer(*planned).inspect(|turn| turns.take(*turn));
    planned.iter().map(give).collect()
}

/// The shortest time after which a node asks again.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

/// When to ask again for attempts that got no turn: when the next turn is half the horizon away,
/// so that a busy lane takes its turns in blocks; or when the next plan is.
pub fn ask_again_in(
    pace: Pace,
    now: Timestamp,
    last_turn: Option<Timestamp>,
    next_planned: Option<Timestamp>,
) -> Duration {
    let next_turn = last_turn.map_or(now, |last| last + pace.spacing());
    let reach = next_turn.max(next_planned.unwrap_or(now)) - HORIZON / 2;
    let wait = reach.duration_since(now).max(SignedDuration::ZERO);
    Duration::try_from(wait)
        .unwrap_or_default()
        .max(SHORTEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pace(rate: &str) -> Pace {
        Pace::of(rate.parse().unwrap(), DEFAULT_MARGIN)
    }
    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap()
    }

    #[test]
    fn spacing_follows_the_floor_of_the_rate_less_the_margin() {
        let micros = |rate| i64::try_from(pace(rate).spacing().as_micros()).unwrap();
        assert_eq!(micros("50"), 20_409, "1 / 49, rounded up");
        assert_eq!(
            micros("50.9"),
            20_409,
            "a fraction above one a second is not used"
        );
        assert_eq!(micros("1"), 1_020_409);
        assert_eq!(
            micros("0.5"),
            2_000_000,
            "below one a second: one send per 1/rate seconds"
        );
    }

    #[test]
    fn a_window_of_four_seconds_holds_196_turns_at_fifty_a_second() {
        let counts: Vec<_> = (0..100)
            .map(|k| pace("50").turns_between(at(k * 4000), at((k + 1) * 4000)))
            .collect();
        assert!(counts.iter().all(|n| (195..=196).contains(n)), "{counts:?}");
        let total: u32 = counts.iter().sum();
        assert_eq!(
            total,
            pace("50").turns_between(at(0), at(400_000)),
            "nothing lost to rounding"
        );
    }

    #[test]
    fn nobody_reserves_beyond_the_horizon_or_before_the_plan() {
        let moment = Moment {
            last_turn: None,
            now: at(0),
            lead: Duration::from_millis(5),
            closes_at: Timestamp::MAX,
        };
        let turns = give_turns(pace("50"), moment, &[at(0); 100]);
        let given: Vec<_> = turns.into_iter().flatten().collect();
        assert_eq!(given.len(), 13);
        assert!(given.iter().all(|t| *t >= at(5) && *t <= at(250)));
        let later = give_turns(pace("50"), moment, &[at(100), at(1000)]);
        assert_eq!(later, [Some(at(100)), None]);
    }

    #[test]
    fn a_slow_lane_reserves_nothing_beyond_the_horizon_and_loses_no_time() {
        let (slow, last) = (pace("0.05"), Some(at(0)));
        let ask = |now| {
            let moment = Moment {
                last_turn: last,
                now,
                lead: Duration::from_millis(5),
                closes_at: Timestamp::MAX,
            };
            give_turns(slow, moment, &[at(0), at(0)])
        };
        assert_eq!(ask(at(1)), [None, None]);
        let again = ask_again_in(slow, at(1), last, Some(at(0)));
        assert_eq!(at(1) + again, at(20_000) - HORIZON / 2);
        assert_eq!(ask(at(1) + again), [Some(at(20_000)), None]);
    }

    #[test]
    fn a_small_step_back_is_waited_for() {
        let moment = Moment {
            last_turn: Some(at(1900)),
            now: at(0),
            lead: Duration::ZERO,
            closes_at: Timestamp::MAX,
        };
        assert_eq!(give_turns(pace("50"), moment, &[at(0)]), [None]);
    }

    #[test]
    fn no_turn_in_closed_time() {
        let moment = Moment {
            last_turn: None,
            now: at(0),
            lead: Duration::ZERO,
            closes_at: at(50),
        };
        let turns = give_turns(pace("50"), moment, &[at(0), at(0), at(0), at(0)]);
        assert_eq!(turns.iter().flatten().count(), 3, "{turns:?}");
        assert!(turns.iter().flatten().all(|turn| *turn < at(50)));
    }

    #[test]
    fn a_cursor_from_a_clock_that_ran_ahead_does_not_stop_the_lane() {
        let moment = Moment {
            last_turn: Some(at(3_600_000)),
            now: at(0),
            lead: Duration::ZERO,
            closes_at: Timestamp::MAX,
        };
        let turns = give_turns(pace("50"), moment, &[at(0), at(0)]);
        assert_eq!(turns, [Some(at(1000)), None]);
    }

    proptest! {
        /// However blocks are taken and whatever the limits in between: no sliding second holds
        /// more than the highest limit that was in force in it, even with every turn used late
        /// within the tolerance.
        #[test]
        fn no_sliding_second_exceeds_the_limit(
            steps in prop::collection::vec((1_u32..200, 0_i64..400, 1_usize..40), 1..60),
            late_us in prop::collection::vec(0_i64..8_000, 2400),
        ) {
            let (mut last, mut now) = (None, at(0));
            let mut sends: Vec<(Timestamp, u32)> = vec![];
            for (rate, wait_ms, waiting) in steps {
                now += SignedDuration::from_millis(wait_ms);
                let moment = Moment { last_turn: last, now, lead: Duration::from_millis(5), closes_at: Timestamp::MAX };
                for turn in give_turns(pace(&rate.to_string()), moment, &vec![now; waiting]).into_iter().flatten() {
                    prop_assert!(last.is_none_or(|l| turn > l) && turn <= now + HORIZON);
                    last = Some(turn);
                    let late = SignedDuration::from_micros(late_us[sends.len()]);
                    sends.push((turn + late, rate));
                }
            }
            sends.sort();
            for (i, (start, _)) in sends.iter().enumerate() {
                let second: Vec<_> = sends[i..].iter()
                    .take_while(|(t, _)| t.duration_since(*start) < SignedDuration::from_secs(1)).collect();
                let limit = second.iter().map(|(_, rate)| *rate).max().unwrap_or(0);
                prop_assert!(second.len() <= limit as usize, "{} sends, limit {limit}", second.len());
            }
        }
    }
}
