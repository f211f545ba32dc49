//! What a sender is given, and what it answers. The sending is in `sender.rs`.

use serde::{Deserialize, Serialize};
use tollgate_core::id::{Item, WatchId};
use tollgate_core::ports::{Request, StatusMove, Then};

/// One item to be sent.
#[derive(Debug, Clone)]
pub struct Job {
    pub item: Item,
    pub run: u32,
    pub request: Request,
    pub moves: Moves,
    /// What texts about the lane must not repeat: those are shown to people who may not see whole accounts.
    pub accounts: Vec<String>,
    /// Whether a refusal ends the item at once, or whoever sends it does that once others are told.
    pub refused_then: Then,
}

/// How the record moves with the outcome.
#[derive(Debug, Clone)]
pub struct Moves {
    pub done: StatusMove,
    pub refused: StatusMove,
    pub in_doubt: StatusMove,
    /// What was in doubt is proved not to have been done.
    pub not_done: StatusMove,
}

impl Job {
    /// The same, under the key of its first send and with its bytes.
    pub(crate) fn again(&self, key: &str, sent_by: Option<WatchId>) -> Self {
        let mut job = self.clone();
        key.clone_into(&mut job.request.idempotency_key);
        job.request.sent_by = sent_by;
        job
    }
}

/// What follows when the downstream declines: an end, or another run under another key.
#[derive(Debug, Clone)]
pub struct IfDeclined {
    pub record: StatusMove,
    pub then: Then,
}

/// What became of the item for now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sent {
    /// The downstream did it; its answer.
    Done(String),
    /// A definite no; the item has ended, or ends once it is told.
    Refused(String),
    /// A definite no to this key; what follows was said beforehand, and has happened.
    Declined(String),
    /// The item waits in the queue and comes back as its next run.
    Requeued(String),
    /// It must not run late and would; it waits for a person. Nothing was sent.
    Held,
    /// Another run owns the item. Nothing was sent.
    Superseded(String),
}
