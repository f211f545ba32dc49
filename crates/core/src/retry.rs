//! Growing pauses: for a step's own retries (seconds, inside a flow) and for an item that goes
//! back to the queue (minutes, outside of any flow).

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Tries in all; the first counts.
    pub max_attempts: u32,
    pub first_pause: Duration,
    /// Each pause is this many times the one before.
    pub factor: u32,
    pub longest_pause: Duration,
}

impl Policy {
    pub const ONCE: Self = Self {
        max_attempts: 1,
        first_pause: Duration::ZERO,
        factor: 1,
        longest_pause: Duration::ZERO,
    };

    /// The pause after the given failed try (1 for the first), without regard to the maximum.
    pub fn pause_after(&self, attempt: u32) -> Duration {
        let grown = self
            .factor
            .checked_pow(attempt.saturating_sub(1))
            .and_then(|times| self.first_pause.checked_mul(times));
        grown.unwrap_or(self.longest_pause).min(self.longest_pause)
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
            factor: 2,
            longest_pause: Duration::from_secs(5),
        };
        let pauses: Vec<_> = (1..6)
            .map(|n| policy.next_pause(n).map(|d| d.as_secs()))
            .collect();
        assert_eq!(pauses, [Some(1), Some(2), Some(4), Some(5), None]);
        assert_eq!(policy.pause_after(10_000).as_secs(), 5, "no overflow");
    }
}
