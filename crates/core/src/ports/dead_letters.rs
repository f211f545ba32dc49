//! Dead letters: items that the machine has given up, and that wait for a person.

use async_trait::async_trait;

use super::{ActionResult, Author, Page, PageFrom, PageToken, StoreResult};
use crate::Timestamp;
use crate::id::{Item, ItemId, ItemType, LaneName};
use crate::item::{Event, QueueStatus};
use crate::money::Money;

#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// What is DEAD, what was due last before the rest, beside a place in that order.
    async fn dead_letters(
        &self,
        item_type: &ItemType,
        from: PageFrom<PageToken>,
        limit: u32,
    ) -> StoreResult<Page<DeadLetter, PageToken>>;

    /// A person decides that a DEAD item is tried again: READY as its next run, at once, and with
    /// all its retries.
    async fn replay(&self, item: &Item, author: Author) -> StoreResult<ActionResult>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    pub id: ItemId,
    /// The record's.
    pub status: String,
    pub money: Money,
    pub lane: LaneName,
    pub run: u32,
    pub retry_count: u32,
    /// Why it was given up.
    pub last_error: Option<String>,
    /// When it was due.
    pub due: Timestamp,
}

/// Why an item cannot be replayed.
pub fn cannot_replay(status: QueueStatus) -> Option<String> {
    let is_dead = status.after(Event::Replay).is_some();
    (!is_dead).then(|| format!("it is {status}, not {}", QueueStatus::Dead))
}
