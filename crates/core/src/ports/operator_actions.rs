//! What people and deadlines do to items: an item is held, released, withdrawn or given another time.

use async_trait::async_trait;

use super::{Author, StatusMove, StoreResult};
use crate::Timestamp;
use crate::id::{Item, ItemType, LaneName};
use crate::item::{Event, QueueStatus};
use crate::outcome::AttemptState;

#[async_trait]
pub trait OperatorActions: Send + Sync {
    /// READY items that must not run late and whose deadline has passed become HELD, unless they
    /// may have been done already. Returns how many.
    async fn hold_late(&self, item_type: &ItemType, limit: u32) -> StoreResult<u64>;

    /// This run would be late, and its item must not be: HELD, until a person decides. False if
    /// this run no longer owns the item.
    async fn hold(&self, item: &Item, run: u32) -> StoreResult<bool>;

    /// A person decides that a HELD item runs now: late, or past the rules that hold it, in the
    /// words they have.
    async fn release_held(&self, item: &Item, author: Author) -> StoreResult<ActionResult>;

    /// Withdraws an item that has not ended, unless it may have been done: its record moves and the
    /// room of its slot comes back. After `Yes` no run of it is given a turn.
    async fn cancel(
        &self,
        item: &Item,
        status: StatusMove,
        author: Author,
    ) -> StoreResult<ActionResult>;

    /// Gives an item that has not ended, and cannot have been done, a new slot from `requested` on. One that was HELD for its deadline is not held for
    /// it again: a person has decided. One that rules hold is judged again when it is sent.
    async fn reschedule(
        &self,
        item: &Item,
        requested: Timestamp,
        author: Author,
    ) -> StoreResult<ActionResult>;

    /// A person decides that an item that has ended, and was certainly not done, is tried again:
    /// READY as its next run, with a new slot from `requested` on, and its record moves back. Only
    /// from one of the statuses that `status` names. What was refused stays so, and makes way for
    /// another key, unless its downstream does not remember refusals.
    async fn reopen(
        &self,
        item: &Item,
        status: StatusMove,
        requested: Timestamp,
        author: Author,
    ) -> StoreResult<ActionResult>;
}

/// Why another key may not be asked after these attempts: all that was attempted must be known not to have
/// been done, and some of it refused.
pub fn refuses_another_key(states: impl Iterator<Item = AttemptState> + Clone) -> Option<String> {
    if !states.clone().any(|state| state == AttemptState::Refused) {
        return Some("the bank has not refused it".to_owned());
    }
    let may_be_done = |state: AttemptState| match state {
        AttemptState::Open | AttemptState::Unknown | AttemptState::Done => true,
        AttemptState::Refused | AttemptState::Declined | AttemptState::Retry => false,
    };
    let mut states = states;
    let may_be_done = states.any(may_be_done);
    may_be_done.then(|| "not all of its attempts are definite refusals".to_owned())
}

/// What became of a person's wish to move an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActionResult {
    Yes,
    NoSuchItem,
    /// Why not.
    Refused(String),
}

/// Why a deadline holds an item.
pub const TOO_LATE: &str = "its deadline has passed and onMissedDeadline is hold";

/// An item as whoever would move it finds it, read while nobody else can move it.
#[derive(Debug, Clone)]
pub struct ItemState {
    pub queue_status: QueueStatus,
    pub lane: LaneName,
    pub run: u32,
    /// Since it was last declined.
    pub may_be_done: bool,
    pub has_ended: bool,
    pub record_status: String,
    /// Nothing is left of it that could be sent.
    pub is_erased: bool,
}

impl ItemState {
    /// Why it cannot be withdrawn any more, or not yet.
    pub fn refuses_cancel(&self) -> Option<String> {
        self.refuses(Event::Cancel)
    }

    /// Why it cannot be given another time.
    pub fn refuses_reschedule(&self) -> Option<String> {
        self.refuses(Event::Reschedule)
    }

    /// Whether rules may stop this run, which is about to send it.
    pub fn may_be_stopped(&self, run: u32) -> bool {
        let is_under_way = matches!(
            self.queue_status,
            QueueStatus::Claimed | QueueStatus::Dispatched
        );
        is_under_way && self.run == run && !self.has_ended && !self.may_be_done
    }

    /// Why there is nothing to let go.
    pub fn refuses_release(&self) -> Option<String> {
        let status = self.queue_status;
        let is_held = status.after(Event::Release).is_some();
        (!is_held).then(|| format!("it is {status}, not {}", QueueStatus::Held))
    }

    /// Why it cannot be tried again.
    pub fn refuses_reopen(&self, status: &StatusMove) -> Option<String> {
        if !status.from.contains(&self.record_status) {
            let from = status.from.join(" or ");
            return Some(format!("it is {}, not {from}", self.record_status));
        }
        if !self.has_ended || self.queue_status.after(Event::Reopen).is_none() {
            return Some("it has not ended".into());
        }
        if self.is_erased {
            return Some(GONE.to_owned());
        }
        self.may_be_done.then(|| SENT.to_owned())
    }

    /// Until its turn is taken, and again while every attempt was definitely not done.
    fn refuses(&self, event: Event) -> Option<String> {
        let status = self.queue_status;
        if status.after(event).is_none() {
            return Some(format!("it is {status} already"));
        }
        if self.has_ended {
            return Some(format!("it has ended and is {}", self.record_status));
        }
        self.may_be_done.then(|| SENT.to_owned())
    }
}

pub(super) const GONE: &str = "its data was erased";
pub(super) const SENT: &str = "it was sent and may have been executed";
