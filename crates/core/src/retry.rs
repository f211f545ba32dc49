//! Growing pauses: for a step's own retries (seconds, inside a flow) and for an item that goes
//! back to the queue (minutes, outside of any flow).

use std::time::Duration;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

pub const TWICE: Decimal = Decimal::TWO;
pub const FOUR_TIMES: Decimal = Decimal::from_parts(4, 0, 0, false, 0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Tries in all; the first counts.
    pub max_attempts: u32,
    pub first_pause: Duration,
    /// Each pause is this many times the one before.
    pub factor: Decimal,
    pub longest_pause: Duration,
}

impl Policy {
    pub const ONCE: Self = Self {
        max_attempts: 1,
        first_pause: Duration::ZERO,
        factor: Decimal::ONE,
        longest_pause: Duration::ZERO,
    };

    /// The pause after the given failed try (1 for the first), without regard to the maximum.
    pub fn pause_after(&self, attempt: u32) -> Duration {
        let grown = self.grown(attempt.saturating_sub(1));
        grown.unwrap_or(self.longest_pause).min(self.longest_pause)
    }

    /// The first pause after it has grown so often; nothing if it is longer than the longest.
    fn grown(&self, times: u32) -> Option<Duration> {
        if self.factor <= Decimal::ONE || self.first_pause.is_zero() {
            return Some(self.first_pause);
        }
        let longest = Decimal::from(self.longest_pause.as_micros());
        let mut pause = Decimal::from(self.first_pause.as_micros());
        for _ in 0..times {
            pause = pause.checked_mul(self.factor)?;
            if pause >= longest {
                return None;
            }
        }
        pause.to_u64().map(Duration::from_micros)
    }

    /// The factor for those who count in floats.
    pub fn coefficient(&self) -> f64 {
        self.factor.max(Decimal::ONE).to_f64().unwrap_or(1.0)
    }

    /// The pause before the next try, or `None` when there is none left.
    pub fn next_pause(&self, attempt: u32) -> Option<Duration> {
        (attempt < self.max_attempts).then(|| self.pause_after(attempt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_end() {
        let policy = Policy {
            max_attempts: 5,
            first_pause: Duration::from_secs(1),
            factor: TWICE,
            longest_pause: Duration::from_secs(5),
        };
        let pauses: Vec<_> = (1..6)
            .map(|n| policy.next_pause(n).map(|d| d.as_secs()))
            .collect();
        assert_eq!(pauses, [Some(1), Some(2), Some(4), Some(5), None]);
        assert_eq!(policy.pause_after(10_000).as_secs(), 5, "no overflow");
        let slower = Policy {
            factor: Decimal::new(15, 1),
            ..policy
        };
        let pauses = [1, 2, 3, 4, 5, 6].map(|n| slower.pause_after(n).as_millis());
        assert_eq!(pauses, [1000, 1500, 2250, 3375, 5000, 5000]);
        for factor in [Decimal::ONE, Decimal::new(101, 2)] {
            let even = Policy { factor, ..policy };
            assert!(even.pause_after(u32::MAX).as_secs() <= 5);
        }
    }
}
