//! An item's life in the queue: one readable table of moves, and nothing outside it.

use std::fmt;

use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum QueueStatus {
    /// Waits for its time.
    Ready,
    /// Taken by a dispatcher, flow not yet known to be started.
    Claimed,
    /// Its exec flow runs, or has ended (`finished_at`).
    Dispatched,
    /// Given up by the machine, waits for a person; can be replayed.
    Dead,
    /// Withdrawn before it was sent.
    Cancelled,
    /// Its deadline has passed and it must not run late; waits for a person.
    Held,
}

/// What moves an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// A dispatcher takes it; again, once the claim on it is stale.
    Claim,
    /// Its claim is given up: its start failed, or whoever took it stops.
    LetGo,
    Started,
    Finish,
    /// Its flow waits in the queue, or was lost: another run.
    Requeue,
    GiveUp,
    Hold,
    /// What people do.
    Cancel,
    Reschedule,
    Release,
    Replay,
    Reopen,
    /// What people say of an item in doubt: it has ended, or is sent again.
    ResolveEnded,
    ResolveAgain,
}

impl Event {
    pub const ALL: [Self; 14] = [
        Self::Claim,
        Self::LetGo,
        Self::Started,
        Self::Finish,
        Self::Requeue,
        Self::GiveUp,
        Self::Hold,
        Self::Cancel,
        Self::Reschedule,
        Self::Release,
        Self::Replay,
        Self::Reopen,
        Self::ResolveEnded,
        Self::ResolveAgain,
    ];
}

impl QueueStatus {
    pub const ALL: [Self; 6] = [
        Self::Ready,
        Self::Claimed,
        Self::Dispatched,
        Self::Dead,
        Self::Cancelled,
        Self::Held,
    ];

    /// The states of an item that still has something before it.
    pub const UNENDED: [Self; 5] = [
        Self::Ready,
        Self::Claimed,
        Self::Dispatched,
        Self::Held,
        Self::Dead,
    ];

    #[expect(
        clippy::match_same_arms,
        reason = "a table reads by its reasons, not by its results"
    )]
    /// The transition table. `None` means: this cannot happen to an item in this state. An event
    /// has conditions of its own besides: whose run or claim it is, whether the item has ended,
    /// whether it may have been done.
    pub fn after(self, event: Event) -> Option<Self> {
        use Event as E;
        use QueueStatus::{Cancelled, Claimed, Dead, Dispatched, Held, Ready};
        match (self, event) {
            (Ready | Claimed, E::Claim) => Some(Claimed),
            (Claimed, E::Started) => Some(Dispatched),
            (Claimed, E::LetGo) => Some(Ready),
            // A flow may act before its start has been recorded.
            (Claimed | Dispatched, E::Finish) => Some(Dispatched),
            (Claimed | Dispatched, E::Requeue) => Some(Ready),
            (Ready | Claimed | Dispatched, E::GiveUp) => Some(Dead),
            (Ready | Claimed | Dispatched, E::Hold) => Some(Held),
            // As long as no turn was taken that may have been used.
            (Ready | Claimed | Dispatched | Dead | Held, E::Cancel) => Some(Cancelled),
            (Ready | Claimed | Dispatched | Dead | Held, E::Reschedule) => Some(Ready),
            (Held, E::Release) | (Dead, E::Replay) => Some(Ready),
            // What has ended only.
            (Dispatched | Cancelled, E::Reopen) => Some(Ready),
            // In doubt is the record's word, wherever the queue has the item.
            (_, E::ResolveEnded) => Some(Dispatched),
            (_, E::ResolveAgain) => Some(Ready),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "READY",
            Self::Claimed => "CLAIMED",
            Self::Dispatched => "DISPATCHED",
            Self::Dead => "DEAD",
            Self::Cancelled => "CANCELLED",
            Self::Held => "HELD",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == text)
    }
}

impl fmt::Display for QueueStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_come_to_rest_is_moved_by_people_only() {
        use Event as E;
        let moved_by = |status: QueueStatus| -> Vec<Event> {
            let moves = |event: &Event| status.after(*event).is_some();
            Event::ALL.into_iter().filter(moves).collect()
        };
        let resolved = [E::ResolveEnded, E::ResolveAgain];
        let held = [E::Cancel, E::Reschedule, E::Release];
        for (status, events) in [
            (QueueStatus::Held, &held[..]),
            (QueueStatus::Dead, &[E::Cancel, E::Reschedule, E::Replay]),
            (QueueStatus::Cancelled, &[E::Reopen]),
        ] {
            assert_eq!(moved_by(status), [events, &resolved].concat(), "{status}");
        }
    }

    #[test]
    fn what_is_under_way_is_not_claimed_again_and_what_is_cancelled_stays_so() {
        assert_eq!(QueueStatus::Dispatched.after(Event::Claim), None);
        for event in [Event::Cancel, Event::Reschedule] {
            assert_eq!(QueueStatus::Cancelled.after(event), None, "{event:?}");
        }
    }

    #[test]
    fn names_survive_a_round_trip() {
        for status in QueueStatus::ALL {
            assert_eq!(QueueStatus::parse(status.as_str()), Some(status));
        }
    }
}
