//! The plan of a lane as a whole: reading it, placing it anew, and recounting it.
//!
//! A replan opens a new *generation* of the lane's plan: every item that waits is placed again, in
//! the order it had, some at a time. Whatever has not been placed yet keeps its slot; new items are
//! placed among those of the new generation. So no step of it holds a lock for long, and one that
//! was cut off is simply continued.

use async_trait::async_trait;

use super::{Author, StoreResult};
use crate::Timestamp;
use crate::id::{ItemId, ItemType, LaneName};

#[async_trait]
pub trait Plans: Send + Sync {
    /// What waits on a lane and has never been attempted, in the order of its slots, after a
    /// place in that order.
    async fn waiting(
        &self,
        lane: &LaneName,
        item_type: &ItemType,
        after: Option<QueuePosition>,
        limit: u32,
    ) -> StoreResult<Vec<Waiting>>;

    /// How many items of any type are READY on a lane and due before a time, counting no further
    /// than `at_most`.
    async fn backlog(&self, lane: &LaneName, before: Timestamp, at_most: u32) -> StoreResult<u64>;

    /// Opens a new generation, which knows nothing yet but what is under way. Audited.
    async fn begin_replan(&self, lane: &LaneName, author: Author) -> StoreResult<i64>;

    /// Places the next items anew. `Invalid` if another replan has begun since.
    async fn replan_some(
        &self,
        lane: &LaneName,
        item_type: &ItemType,
        generation: i64,
        after: Option<QueuePosition>,
        limit: u32,
    ) -> StoreResult<Vec<Replanned>>;

    /// Closes the replan, audits its summary and forgets what older generations counted.
    async fn end_replan(
        &self,
        lane: &LaneName,
        generation: i64,
        summary: String,
        author: Author,
    ) -> StoreResult<()>;

    /// The generation of a replan that was begun and not ended.
    async fn open_replan(&self, lane: &LaneName) -> StoreResult<Option<i64>>;

    /// Counts the windows ahead anew from the slots of what waits (for its time, or HELD for a
    /// person) or is under way, and corrects the counters that differ; audited if any did. Nothing while a replan is open.
    async fn recount(&self, lane: &LaneName) -> StoreResult<Recounted>;
}

/// A place in the order of a lane's queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePosition {
    pub due: Timestamp,
    pub id: ItemId,
}

/// An item as the planner sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub id: ItemId,
    pub due: Timestamp,
    pub window: Timestamp,
    pub requested: Timestamp,
    pub deadline: Option<Timestamp>,
    /// Held instead of sent after this time.
    pub hold_after: Option<Timestamp>,
}

impl Waiting {
    pub fn spot(&self) -> QueuePosition {
        QueuePosition {
            due: self.due,
            id: self.id.clone(),
        }
    }
}

/// An item and where it was put; `to` is its old time if its lane never opens again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replanned {
    pub item: Waiting,
    pub to: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recounted {
    pub windows: u64,
    /// Room that counters had held for nobody.
    pub returned: u64,
    /// Slots that no counter had known.
    pub missing: u64,
}

impl Recounted {
    /// A window whose counter said `used` while `held` slots lie in it.
    pub fn add(&mut self, used: i64, held: i64) {
        self.windows += 1;
        self.returned += used.saturating_sub(held).max(0).unsigned_abs();
        self.missing += held.saturating_sub(used).max(0).unsigned_abs();
    }
}

impl std::fmt::Display for Recounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            windows,
            returned,
            missing,
        } = self;
        write!(
            f,
            "{windows} windows corrected: {returned} slots were counted and not taken, {missing} were taken and not counted"
        )
    }
}
