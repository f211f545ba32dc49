//! What a sender is given, and what it answers. The sending is in `sender.rs`.

use std::fmt;
use std::sync::Arc;

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
    /// Whether a refusal ends the item at once, or the caller ends it after queueing its news.
    pub refused_then: Then,
    /// Ends the item together with the answer. Without it, the caller ends what was done.
    pub if_done: Option<IfDone>,
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

/// The end of an item whose answer leaves nothing to do. One move fewer than an answer and an end.
#[derive(Clone)]
pub struct IfDone {
    pub record: StatusMove,
    /// Whether this answer leaves nothing to do. If not, the item stays, and the caller ends it.
    pub leaves_nothing: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl IfDone {
    /// Whatever the answer says.
    pub fn always(record: StatusMove) -> Self {
        Self {
            record,
            leaves_nothing: Arc::new(|_| true),
        }
    }
}

impl fmt::Debug for IfDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = &self.record;
        f.debug_struct("IfDone")
            .field("record", record)
            .finish_non_exhaustive()
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
    /// The downstream did it, and the item has ended with its answer.
    Ended(String),
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
