//! An item's life in the queue: one readable table of moves, and nothing outside it.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// Withdrawn before it was dispatched.
    Cancelled,
    /// Its deadline has passed and it must not run late; waits for a person.
    Held,
}

/// What moves an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    Claim,
    Reclaim,
    Started,
    StartFailed,
    GiveUp,
    Requeue,
    Finish,
    Cancel,
    Replay,
    Hold,
    Release,
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
    /// The transition table. `None` means: this cannot happen to an item in this state.
    pub fn after(self, event: Event) -> Option<Self> {
        use Event as E;
        use QueueStatus::{Cancelled, Claimed, Dead, Dispatched, Held, Ready};
        match (self, event) {
            (Ready, E::Claim) | (Claimed, E::Reclaim) => Some(Claimed),
            (Claimed, E::Started) | (Dispatched, E::Finish) => Some(Dispatched),
            (Claimed, E::StartFailed) | (Dispatched, E::Requeue) | (Dead, E::Replay) => Some(Ready),
            (Ready | Claimed | Dispatched, E::GiveUp) => Some(Dead),
            (Ready | Held, E::Cancel) => Some(Cancelled),
            (Ready | Claimed | Dispatched, E::Hold) => Some(Held),
            (Held, E::Release) => Some(Ready),
            // A flow may act before its start has been recorded.
            (Claimed, E::Finish) => Some(Dispatched),
            (Claimed, E::Requeue) => Some(Ready),
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
    fn an_item_ends_only_where_it_should() {
        use Event as E;
        let events = [
            E::Claim,
            E::Reclaim,
            E::Started,
            E::StartFailed,
            E::GiveUp,
            E::Requeue,
            E::Finish,
            E::Cancel,
            E::Replay,
            E::Hold,
            E::Release,
        ];
        let moves = |s: QueueStatus| events.iter().filter(|e| s.after(**e).is_some()).count();
        assert_eq!(moves(QueueStatus::Cancelled), 0, "cancelled is final");
        assert_eq!(moves(QueueStatus::Dead), 1, "dead can only be replayed");
        assert_eq!(
            QueueStatus::Dispatched.after(E::Cancel),
            None,
            "too late to cancel"
        );
        assert_eq!(
            QueueStatus::Dispatched.after(E::Claim),
            None,
            "never claimed twice"
        );
    }

    #[test]
    fn names_survive_a_round_trip() {
        for status in QueueStatus::ALL {
            assert_eq!(QueueStatus::parse(status.as_str()), Some(status));
        }
    }
}
