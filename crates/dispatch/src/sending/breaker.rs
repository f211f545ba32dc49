//! The circuit breaker of one downstream: when too many exchanges fail or take too long, its lane
//! is closed for a while, for longer each time, until requests succeed again. It only ever slows a
//! lane down; the hard limit is the gate's. Pure: the sender carries its moves out.

use std::collections::VecDeque;
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::retry;

/// This many of the last exchanges count.
const RECENT: usize = 20;
/// This many failures among them open the circuit.
const TOO_MANY: usize = 10;
/// After a pause, this many failures in a row open it again, and as many successes in a row close
/// it for good.
const TRIAL: usize = 3;

const PAUSES: retry::Policy = retry::Policy {
    max_attempts: u32::MAX,
    first_pause: Duration::from_secs(5),
    factor: retry::TWICE,
    longest_pause: Duration::from_mins(5),
};

#[derive(Debug, Default)]
pub(crate) struct Breaker {
    /// Whether each of the last exchanges worked, newest last.
    recent: VecDeque<bool>,
    /// How often it has opened since exchanges last worked.
    openings: u32,
    /// Exchanges that began before this say nothing new.
    open_until: Option<Timestamp>,
}

/// What follows from an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Circuit {
    /// So many of so many exchanges failed.
    Opens {
        pause: Duration,
        failed: usize,
        of: usize,
    },
    Closes,
}

impl Breaker {
    /// `began` and `heard`: when the exchange began, and when its end was known, by the shared clock.
    pub(crate) fn record(
        &mut self,
        worked: bool,
        began: Timestamp,
        heard: Timestamp,
    ) -> Option<Circuit> {
        if self.open_until.is_some_and(|until| began < until) {
            return None;
        }
        let on_trial = self.openings > 0;
        let (remembered, bound) = if on_trial {
            (TRIAL, TRIAL)
        } else {
            (RECENT, TOO_MANY)
        };
        self.recent.push_back(worked);
        if self.recent.len() > remembered {
            self.recent.pop_front();
        }
        let failed = self.recent.iter().filter(|worked| !**worked).count();
        if on_trial && failed == 0 && self.recent.len() == TRIAL {
            *self = Self::default();
            return Some(Circuit::Closes);
        }
        if worked || failed < bound {
            return None;
        }
        self.openings += 1;
        let of = self.recent.len();
        self.recent.clear();
        let pause = PAUSES.pause_after(self.openings);
        self.open_until = Some(heard + pause);
        Some(Circuit::Opens { pause, failed, of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + secs).unwrap()
    }
    fn opens(secs: u64, failed: usize, of: usize) -> Circuit {
        let pause = Duration::from_secs(secs);
        Circuit::Opens { pause, failed, of }
    }

    #[test]
    fn half_of_the_last_twenty_open_it_and_fewer_do_not() {
        let mut breaker = Breaker::default();
        for n in 0..100 {
            assert_eq!(
                breaker.record(n % 5 != 0, at(n), at(n)),
                None,
                "one in five fails"
            );
        }
        let mut breaker = Breaker::default();
        let said: Vec<_> = (0..10)
            .map(|n| breaker.record(false, at(n), at(n)))
            .collect();
        assert_eq!(said[8], None);
        assert_eq!(said[9], Some(opens(5, 10, 10)));
        let mut breaker = Breaker::default();
        let said: Vec<_> = (0..20)
            .filter_map(|n| breaker.record(n % 2 == 0, at(n), at(n)))
            .collect();
        assert_eq!(said, [opens(5, 10, 20)], "every other one fails");
    }

    #[test]
    fn what_was_under_way_when_it_opened_counts_for_nothing() {
        let mut breaker = Breaker::default();
        for n in 0..10 {
            breaker.record(false, at(n), at(n));
        }
        for n in 0..50 {
            assert_eq!(breaker.record(false, at(n % 14), at(n % 14)), None);
        }
    }

    #[test]
    fn a_bank_that_mostly_works_is_not_kept_waiting() {
        let mut breaker = Breaker::default();
        for n in 0..10 {
            breaker.record(false, at(n), at(n));
        }
        for n in 20..200 {
            let said = breaker.record(n % 10 != 0, at(n), at(n));
            assert!(
                !matches!(said, Some(Circuit::Opens { .. })),
                "{n}: {said:?}"
            );
        }
    }

    #[test]
    fn what_took_long_to_fail_does_not_shorten_the_pause() {
        let mut breaker = Breaker::default();
        for n in 0..10 {
            breaker.record(false, at(n), at(60 + n));
        }
        for n in 30..70 {
            assert_eq!(breaker.record(false, at(n), at(n + 60)), None, "{n}");
        }
    }

    #[test]
    fn it_opens_sooner_and_for_longer_until_exchanges_work_again() {
        let mut breaker = Breaker::default();
        for n in 0..10 {
            breaker.record(false, at(n), at(n));
        }
        let again: Vec<_> = (20..23)
            .map(|n| breaker.record(false, at(n), at(n)))
            .collect();
        assert_eq!(again, [None, None, Some(opens(10, 3, 3))]);
        let works: Vec<_> = (40..43)
            .map(|n| breaker.record(true, at(n), at(n)))
            .collect();
        assert_eq!(works, [None, None, Some(Circuit::Closes)]);
        assert_eq!(breaker.record(false, at(44), at(44)), None, "a clean slate");
    }
}
