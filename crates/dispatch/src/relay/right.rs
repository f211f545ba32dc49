//! The right to publish: one process has it at a time, keeps it while it waits, and says when another would publish elsewhere.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::ports::{LEASE, RelayHold, StoreError, StoreResult};
use tollgate_core::shared_settings::differences;

use super::EventRelay;

/// How often a process says that it is there.
const HOLD_EVERY: Duration = Duration::from_secs(2);

/// What a process knows of the right to publish.
#[derive(Default)]
pub(super) struct Right {
    /// While it has it, and since when.
    pub(super) held: Option<(RelayHold, Instant)>,
    /// The settings were kept under this fence.
    kept: Option<u64>,
    /// What was said last of the settings of the process that has it.
    difference: Option<String>,
}

impl EventRelay {
    /// Waits, and keeps the right meanwhile: a pause may be longer than the lease, and events can be turned off once that has run
    /// out.
    pub(super) async fn rest(&self, right: &mut Right, wait: Duration) {
        let mut is_ours = right.held.is_some();
        for some in parts(wait) {
            // A store that does not answer may do so the next time.
            is_ours = is_ours && !matches!(self.hold(right).await, Ok(None));
            tokio::time::sleep(some).await;
        }
    }

    pub(super) async fn hold(&self, right: &mut Right) -> Result<Option<RelayHold>, StoreError> {
        if let Some((hold, since)) = right.held
            && since.elapsed() < HOLD_EVERY
        {
            return Ok(Some(hold));
        }
        let asked = Instant::now();
        right.held = None;
        let found = self.store.hold_relay(&self.owner, LEASE).await?;
        self.compare(right, found).await?;
        right.held = found.map(|hold| (hold, asked));
        if found.is_none() {
            tokio::time::sleep(HOLD_EVERY).await;
        }
        Ok(found)
    }

    /// Another process would publish elsewhere: that goes unnoticed until it does, so it is said while this one waits.
    async fn compare(&self, right: &mut Right, found: Option<RelayHold>) -> StoreResult<()> {
        let fence = found.map(|hold| hold.fence);
        if fence.is_some() && fence == right.kept {
            return Ok(());
        }
        let ours = &self.outlets.settings;
        let theirs = self.store.relay_settings(&self.owner, ours).await?;
        right.kept = fence;
        let difference = difference(&theirs, ours);
        if let Some(what) = &difference {
            if right.difference != difference {
                tracing::error!(what, "processes would publish events to different places");
            }
            self.store.note_relay_difference(what, LEASE).await?;
        }
        right.difference = difference;
        Ok(())
    }
}

/// A pause in parts, before each of which the right is renewed.
fn parts(wait: Duration) -> impl Iterator<Item = Duration> {
    let mut left = wait;
    std::iter::from_fn(move || {
        let part = left.min(HOLD_EVERY);
        left -= part;
        (!part.is_zero()).then_some(part)
    })
}

/// In one sentence for people, who may ask a third process about it.
fn difference(publishing: &str, waiting: &str) -> Option<String> {
    let shown = |value: Option<&str>| value.unwrap_or("unknown").to_owned();
    let said = differences(publishing, waiting).into_iter().map(|it| {
        let (there, here) = (shown(it.there), shown(it.here));
        format!(
            "{} is {there} in the process that publishes and {here} in another",
            it.key
        )
    });
    let said: Vec<String> = said.collect();
    let said = (!said.is_empty()).then(|| said.join(", "))?;
    Some(format!("{said}; give all processes the same settings"))
}

#[cfg(test)]
mod tests {
    use super::super::{FIRST_PAUSE, LONGEST_PAUSE, LOOK_EVERY};
    use super::*;

    #[test]
    fn a_pause_renews_the_lease_long_before_it_runs_out() {
        for wait in [Duration::ZERO, LOOK_EVERY, FIRST_PAUSE, LONGEST_PAUSE] {
            assert_eq!(parts(wait).sum::<Duration>(), wait);
            assert!(parts(wait).all(|part| part <= LEASE / 2), "{wait:?}");
        }
    }

    #[test]
    fn a_difference_is_one_sentence_with_a_remedy() {
        assert_eq!(difference("events.topic = a", "events.topic = a"), None);
        let said = difference("events.topic = a", "events.topic = b").unwrap();
        assert_eq!(
            said,
            "events.topic is a in the process that publishes and b in another; \
             give all processes the same settings"
        );
    }
}
