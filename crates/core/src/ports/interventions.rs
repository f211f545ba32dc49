//! What people and deadlines do to items: an item is held, released, withdrawn or given another time.

use async_trait::async_trait;

use super::{Author, StatusMove, StoreResult};
use crate::Timestamp;
use crate::id::{Item, ItemType};

#[async_trait]
pub trait Interventions: Send + Sync {
    /// READY items that must not run late and whose deadline has passed become HELD, unless they
    /// may have been done already. Returns how many.
    async fn hold_late(&self, item_type: &ItemType, limit: u32) -> StoreResult<u64>;

    /// This run would be late, and its item must not be: HELD, until a person decides. False if
    /// this run no longer owns the item.
    async fn hold(&self, item: &Item, run: u32) -> StoreResult<bool>;

    /// A person decides that a HELD item runs late, now.
    async fn release_held(&self, item: &Item, author: Author) -> StoreResult<Intervened>;

    /// Withdraws an item that is READY or HELD, unless it may have been paid: its record moves
    /// and the room of its slot comes back.
    async fn cancel(
        &self,
        item: &Item,
        status: StatusMove,
        author: Author,
    ) -> StoreResult<Intervened>;

    /// Gives an item that is READY or HELD, and has never been attempted since the downstream last
    /// declined it, a new slot from `requested` on. One that was HELD is not held again: a person has decided.
    async fn reschedule(
        &self,
        item: &Item,
        requested: Timestamp,
        author: Author,
    ) -> StoreResult<Intervened>;

    /// A person decides that an item that has ended, and was certainly not done, is tried again:
    /// READY as its next run, with a new slot from `requested` on, and its record moves back. Only
    /// from one of the statuses that `status` names. What was refused counts as declined from here
    /// on: it is asked again, under another key.
    async fn reopen(
        &self,
        item: &Item,
        status: StatusMove,
        requested: Timestamp,
        author: Author,
    ) -> StoreResult<Intervened>;
}

/// What became of a person's wish to move an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Intervened {
    Yes,
    NoSuchItem,
    /// Why not.
    Refused(String),
}

/// Why an item cannot be tried again by a person.
pub fn cannot_reopen(
    has_ended: bool,
    record_status: &str,
    status: &StatusMove,
    may_be_done: bool,
) -> Option<String> {
    if !status.from.iter().any(|from| from == record_status) {
        let from = status.from.join(" or ");
        return Some(format!("it is {record_status}, not {from}"));
    }
    if !has_ended {
        return Some("it has not ended".into());
    }
    may_be_done.then(|| "it was sent, and may have been done".into())
}

/// Why an item cannot be moved by a person any more, or not yet.
pub fn cannot_move(queue_status: &str, may_be_done: bool) -> Option<String> {
    match queue_status {
        "READY" | "HELD" if may_be_done => Some("it was sent, and may have been done".into()),
        "READY" | "HELD" => None,
        "CLAIMED" | "DISPATCHED" => Some("it is being executed, or was".into()),
        "DEAD" => Some("it is DEAD; replay it instead".into()),
        other => Some(format!("it is {other} already")),
    }
}
