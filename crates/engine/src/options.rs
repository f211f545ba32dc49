//! The engine's bounds, each with a name. It reads no configuration file: the server does.

use std::time::Duration;

use tollgate_core::retry;

#[derive(Debug, Clone)]
pub struct Options {
    /// Flows that run at once. A flow that only waits for its children does not count.
    pub max_running: u32,
    /// Flows held in memory, waiting parents included. Awaited children may exceed it, as their
    /// parents could not end without them.
    pub max_live: u32,
    /// Flows loaded by one question to the store.
    pub max_batch: u32,
    /// Callers that wait for a flow's end at once; one more is answered without waiting.
    pub max_watchers: usize,
    /// The loader never asks the store more often than this without a reason.
    pub shortest_poll: Duration,
    /// The loader asks the store at least this often, reason or not.
    pub longest_poll: Duration,
    /// A flow's progress is written at most this often.
    pub progress_every: Duration,
    /// The pauses while the store cannot be used; its `max_attempts` is not looked at.
    pub store_retry: retry::Policy,
    /// How long a shutdown waits for running steps to be journaled before it abandons them.
    pub drain: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_running: 1024,
            max_live: 8192,
            max_batch: 256,
            max_watchers: 65_536,
            shortest_poll: Duration::from_millis(1),
            longest_poll: Duration::from_secs(1),
            progress_every: Duration::from_millis(200),
            store_retry: retry::Policy {
                max_attempts: u32::MAX,
                first_pause: Duration::from_millis(20),
                factor: retry::TWICE,
                longest_pause: Duration::from_secs(2),
            },
            drain: Duration::from_secs(10),
        }
    }
}

impl Options {
    /// What contradicts itself, in one sentence.
    pub fn validate(&self) -> Result<(), String> {
        let refuse = |sentence: &str| Err(sentence.to_owned());
        if self.max_running == 0 || self.max_batch == 0 {
            return refuse("engine: max_running and max_batch must be at least 1");
        }
        if self.max_live < self.max_running {
            return refuse("engine: max_live must not be below max_running");
        }
        if self.shortest_poll.is_zero() || self.longest_poll < self.shortest_poll {
            return refuse("engine: shortest_poll must be above zero and not above longest_poll");
        }
        if self.store_retry.first_pause.is_zero() || self.store_retry.longest_pause.is_zero() {
            return refuse("engine: store_retry must pause between its tries");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictions_are_refused_and_the_defaults_are_not() {
        assert_eq!(Options::default().validate(), Ok(()));
        let contradictions: [fn(&mut Options); 5] = [
            |o| o.max_running = 0,
            |o| o.max_batch = 0,
            |o| o.max_live = o.max_running - 1,
            |o| o.longest_poll = Duration::ZERO,
            |o| o.store_retry = retry::Policy::ONCE,
        ];
        for (index, contradict) in contradictions.iter().enumerate() {
            let mut options = Options::default();
            contradict(&mut options);
            assert!(options.validate().is_err(), "contradiction {index}");
        }
    }
}
