//! What goes wrong on purpose, decided by a seeded generator: the same seed and the same order of
//! arrivals give the same faults. It decides only; the contract carries the decision out.

use std::{
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};

/// The faults in force, for sends and probes alike; none by default. "Every n" is one in n at
/// random, so 1 strikes always. `NonZeroU32::new(n)` gives the `Option` as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// The work is done, then the connection is closed without an answer.
    pub lose_answer_every: Option<NonZeroU32>,
    /// The connection is closed without doing the work.
    pub reset_before_every: Option<NonZeroU32>,
    /// How long the answer is held back after the work has been done.
    pub latency: Duration,
}

/// What will go wrong with one arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) reset_before: bool,
    pub(crate) lose_answer: bool,
    pub(crate) latency: Duration,
}

#[derive(Debug)]
pub(crate) struct FaultSource {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    faults: Faults,
    random: StdRng,
}

impl FaultSource {
    pub(crate) fn new(faults: Faults, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        Self {
            state: Mutex::new(State { faults, random }),
        }
    }

    pub(crate) fn set(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Two numbers are drawn for each arrival, needed or not, so that switching one fault on does
    /// not shift when another strikes.
    pub(crate) fn draw(&self) -> Fate {
        let mut state = self.state();
        let (for_reset, for_loss) = (state.random.next_u32(), state.random.next_u32());
        Fate {
            reset_before: strikes(for_reset, state.faults.reset_before_every),
            lose_answer: strikes(for_loss, state.faults.lose_answer_every),
            latency: state.faults.latency,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn strikes(drawn: u32, every: Option<NonZeroU32>) -> bool {
    every.is_some_and(|n| drawn % n == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(faults: Faults) -> Vec<bool> {
        let source = FaultSource::new(faults, 7);
        (0..1_000).map(|_| source.draw().lose_answer).collect()
    }

    #[test]
    fn one_in_n_strikes_about_that_often_and_the_same_way_for_the_same_seed() {
        let faults = Faults {
            lose_answer_every: NonZeroU32::new(4),
            ..Faults::default()
        };
        let struck = losses(faults).iter().filter(|lost| **lost).count();
        assert!((200..300).contains(&struck), "{struck} of 1000");
        assert_eq!(losses(faults), losses(faults));
    }

    #[test]
    fn another_fault_does_not_shift_the_losses() {
        let alone = Faults {
            lose_answer_every: NonZeroU32::new(4),
            ..Faults::default()
        };
        let beside_resets = Faults {
            reset_before_every: NonZeroU32::new(3),
            ..alone
        };
        assert_eq!(losses(alone), losses(beside_resets));
    }
}
