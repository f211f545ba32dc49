//! A server that cannot be reached: it is tried again by one caller at a time, at growing distances
//! with a bound; everybody else is told at once that it is away.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::ports::{StoreError, StoreResult};
use tollgate_core::retry;

/// The last is how long the server may be back before anybody notices.
const TRIES: retry::Policy = retry::Policy {
    max_attempts: u32::MAX,
    first_pause: Duration::from_millis(50),
    factor: retry::TWICE,
    longest_pause: Duration::from_secs(1),
};

#[derive(Debug, Default)]
pub(super) struct Away(Mutex<Option<Trouble>>);

#[derive(Debug)]
struct Trouble {
    tries: u32,
    next_try: Instant,
    why: String,
}

impl Away {
    /// Whether this caller may connect. If so, the others wait for what becomes of it.
    pub(super) fn may_try(&self) -> StoreResult<()> {
        match &mut *self.trouble() {
            None => Ok(()),
            Some(trouble) if trouble.next_try <= Instant::now() => {
                trouble.next_try = Instant::now() + TRIES.pause_after(trouble.tries);
                Ok(())
            }
            Some(trouble) => Err(StoreError::Unavailable(trouble.why.clone())),
        }
    }

    pub(super) fn was_reached(&self) {
        *self.trouble() = None;
    }

    pub(super) fn was_not_reached(&self, why: &str) {
        let mut trouble = self.trouble();
        let tries = trouble.as_ref().map_or(1, |t| t.tries.saturating_add(1));
        *trouble = Some(Trouble {
            tries,
            next_try: Instant::now() + TRIES.pause_after(tries),
            why: why.to_owned(),
        });
    }

    fn trouble(&self) -> MutexGuard<'_, Option<Trouble>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_caller_tries_at_a_time_at_growing_distances_up_to_a_second() {
        let away = Away::default();
        assert!(away.may_try().is_ok());
        for pause_ms in [50, 100, 200, 400, 800, 1000, 1000] {
            away.was_not_reached("gone");
            tokio::time::advance(Duration::from_millis(pause_ms - 1)).await;
            assert!(away.may_try().is_err(), "before {pause_ms} ms");
            tokio::time::advance(Duration::from_millis(1)).await;
            assert!(away.may_try().is_ok(), "after {pause_ms} ms");
            assert!(away.may_try().is_err(), "a second one at the same time");
        }
        away.was_reached();
        assert!(away.may_try().is_ok() && away.may_try().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_try_that_never_ends_keeps_nobody_from_trying() {
        let away = Away::default();
        away.was_not_reached("gone");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(away.may_try().is_ok(), "and hangs");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(away.may_try().is_ok());
    }
}
