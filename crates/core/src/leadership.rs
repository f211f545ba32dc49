//! Whether a store has a leader: judged by its beats, as one process has seen them, by that process's own
//! monotonic clock. No wall clock is compared, neither the database's nor another machine's.

use std::time::Duration;

use crate::id::Epoch;

/// How often a leader beats, and how often every process shows that it lives.
pub const BEAT_EVERY: Duration = Duration::from_secs(1);
/// A leader that has not beaten for this long may be taken over from.
pub const SILENT_AFTER: Duration = Duration::from_secs(3);
/// How often a standby looks for a beat.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Looks whose answers are further apart than this say nothing about the time between them: the store was
/// away or stood still, for the leader as well as for whoever looked, or this process stood still.
const MOST_BETWEEN_LOOKS: Duration = Duration::from_millis(1500);

/// One start of one process, numbered by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub i64);

/// The state of leadership at one moment. Compared and set by whoever takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub epoch: Epoch,
    /// Raised with every beat; its value means nothing else.
    pub beat: i64,
    /// Nobody before the first start and after a leader has resigned.
    pub leader: Option<ProcessId>,
}

/// What a process may conclude.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nobody leads, or the leader is silent: take over from exactly this state.
    Vacant,
    Led,
}

/// What one process has seen of the leader. Times are its own: since any fixed moment.
#[derive(Debug, Default)]
pub struct LeaderWatch {
    last: Option<Last>,
}

#[derive(Debug)]
struct Last {
    seen: Seen,
    /// When this state was first known.
    first_at: Duration,
    /// When the latest look ended.
    looked_at: Duration,
    /// The leader has beaten while this process watched.
    was_alive: bool,
}

impl LeaderWatch {
    /// One look, which began and ended then. A beat is missing for [`SILENT_AFTER`] when the first look
    /// that saw it had ended so long before the latest began.
    pub fn look(&mut self, began: Duration, ended: Duration, seen: Seen) -> Verdict {
        let last = self.last.take();
        let same_leader = last
            .as_ref()
            .is_some_and(|last| last.seen.epoch == seen.epoch && last.seen.leader == seen.leader);
        let has_beaten = last.as_ref().is_some_and(|last| last.seen != seen);
        let is_steady = last
            .as_ref()
            .is_some_and(|last| ended.saturating_sub(last.looked_at) <= MOST_BETWEEN_LOOKS);
        let first_at = match &last {
            Some(last) if last.seen == seen && is_steady => last.first_at,
            _ => ended,
        };
        let was_alive = same_leader && (has_beaten || last.is_some_and(|last| last.was_alive));
        self.last = Some(Last {
            seen,
            first_at,
            looked_at: ended,
            was_alive,
        });
        if seen.leader.is_none() || began.saturating_sub(first_at) >= SILENT_AFTER {
            Verdict::Vacant
        } else {
            Verdict::Led
        }
    }

    /// A look that failed: the silence is counted from the next one on, since the leader could not be heard.
    pub fn missed(&mut self, at: Duration) {
        if let Some(last) = &mut self.last {
            last.first_at = last.first_at.max(at);
        }
    }

    /// Whether the leader that was seen last has beaten while this process watched.
    pub fn was_alive(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.was_alive)
    }

    /// How long the leader has been silent; nothing where nobody leads.
    pub fn silent_for(&self, now: Duration) -> Option<Duration> {
        let last = self
            .last
            .as_ref()
            .filter(|last| last.seen.leader.is_some())?;
        Some(now.saturating_sub(last.first_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn seen(epoch: i64, beat: i64) -> Seen {
        Seen {
            epoch: Epoch(epoch),
            beat,
            leader: Some(ProcessId(7)),
        }
    }

    /// Looks four times a second from then until then, each of 10 ms; the last verdict.
    fn looks(watch: &mut LeaderWatch, from: u64, to: u64, seen: Seen) -> Verdict {
        let mut verdict = Verdict::Led;
        for at in (from..=to).step_by(250) {
            verdict = watch.look(ms(at - 10), ms(at), seen);
        }
        verdict
    }

    #[test]
    fn a_leader_is_silent_three_seconds_after_its_last_beat_was_seen() {
        let mut watch = LeaderWatch::default();
        assert_eq!(looks(&mut watch, 1000, 4000, seen(1, 1)), Verdict::Led);
        assert_eq!(watch.look(ms(4010), ms(4020), seen(1, 1)), Verdict::Vacant);
        assert!(!watch.was_alive());
    }

    #[test]
    fn every_beat_begins_the_count_again() {
        let mut watch = LeaderWatch::default();
        for beat in 0..10_u32 {
            let from = 1000 + u64::from(beat) * 2500;
            let verdict = looks(&mut watch, from, from + 2250, seen(1, beat.into()));
            assert_eq!(verdict, Verdict::Led);
        }
        assert!(watch.was_alive());
        assert_eq!(watch.silent_for(ms(26_000)), Some(ms(2500)));
    }

    #[test]
    fn nobody_leads_before_the_first_start_and_after_a_leader_has_resigned() {
        let mut watch = LeaderWatch::default();
        let nobody = Seen {
            leader: None,
            ..seen(0, 0)
        };
        assert_eq!(watch.look(ms(0), ms(1), nobody), Verdict::Vacant);
        assert_eq!(watch.silent_for(ms(1)), None);
    }

    #[test]
    fn a_store_that_was_away_gives_the_leader_its_time_again() {
        let mut watch = LeaderWatch::default();
        looks(&mut watch, 1000, 3000, seen(1, 1));
        watch.missed(ms(9000));
        assert_eq!(looks(&mut watch, 9250, 12_000, seen(1, 1)), Verdict::Led);
        assert_eq!(
            looks(&mut watch, 12_250, 12_500, seen(1, 1)),
            Verdict::Vacant
        );
    }

    #[test]
    fn a_process_that_stood_still_does_not_count_that_time() {
        let mut watch = LeaderWatch::default();
        looks(&mut watch, 1000, 2000, seen(1, 1));
        // Stopped between two looks, and in the middle of one.
        assert_eq!(watch.look(ms(60_000), ms(60_010), seen(1, 1)), Verdict::Led);
        assert_eq!(watch.look(ms(60_260), ms(90_000), seen(1, 1)), Verdict::Led);
        assert_eq!(watch.look(ms(90_250), ms(90_260), seen(1, 1)), Verdict::Led);
    }

    #[test]
    fn whether_a_leader_was_alive_is_asked_of_each_anew() {
        let mut watch = LeaderWatch::default();
        watch.look(ms(0), ms(1), seen(1, 1));
        watch.look(ms(250), ms(251), seen(1, 2));
        assert!(watch.was_alive());
        watch.look(ms(500), ms(501), seen(2, 0));
        assert!(!watch.was_alive());
    }
}
