//! What a timetable is made from: what has not been sent on a lane, and how long the way to a turn takes.

use async_trait::async_trait;

use super::{StoreResult, WindowUse};
use crate::id::{BulkId, ItemType, LaneName};
use crate::lane_in_force::LaneInForce;
use crate::timetable::SentOnSlot;
use crate::{SignedDuration, Timestamp};

#[async_trait]
pub trait Timetables: Send + Sync {
    /// What has not been sent on a lane: READY, or claimed or dispatched without a send of its run. Item by
    /// item for the `near` that are due first, by windows behind them. `None` if there is no such lane.
    async fn unsent(
        &self,
        lane: &LaneName,
        item_types: &[ItemType],
        near: u32,
    ) -> StoreResult<Option<UnsentOnLane>>;

    /// The last sends on a lane that were the first for their item, newest first, with their slots.
    async fn sent_on_slots(&self, lane: &LaneName, limit: u32) -> StoreResult<Vec<SentOnSlot>>;

    /// What has not been sent on a lane and is due less than `slack` before its deadline, or after it.
    async fn tight(&self, lane: &LaneName, slack: SignedDuration) -> StoreResult<Vec<Tight>>;

    /// The same of what was taken in with a bulk, and nothing else.
    async fn tight_in_bulk(
        &self,
        lane: &LaneName,
        item_type: &ItemType,
        bulk: &BulkId,
        slack: SignedDuration,
    ) -> StoreResult<Vec<Tight>>;

    /// How many that have not been sent on a lane have a deadline.
    async fn with_deadline(&self, lane: &LaneName) -> StoreResult<u64>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsentOnLane {
    pub now: Timestamp,
    pub lane: LaneInForce,
    /// The last turn that was given on it.
    pub last_turn: Option<Timestamp>,
    /// What is under way, and of what is READY what is due first.
    pub near: Vec<Unsent>,
    /// Behind those, if that is not all.
    pub far: Option<Far>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsent {
    pub item_type: ItemType,
    pub due: Timestamp,
    /// Held instead of sent after this time.
    pub hold_after: Option<Timestamp>,
    /// Not claimed yet.
    pub is_ready: bool,
}

/// What is counted only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Far {
    pub from: Timestamp,
    /// READY and due from there until the windows begin.
    pub count: u64,
    pub windows_from: Timestamp,
    pub windows: Vec<WindowUse>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tight {
    pub item_type: ItemType,
    pub currency: String,
    pub amount_minor: i64,
    pub due: Timestamp,
    pub deadline: Timestamp,
}

/// Of what is READY, cut to the `near` that are due first: where the rest begins, if there is one. What is due
/// together stays together.
pub fn cut_near(ready: &mut Vec<Unsent>, near: u32) -> Option<Timestamp> {
    ready.sort_by_key(|unsent| unsent.due);
    let last = ready.get(usize::try_from(near).ok()?)?.due;
    ready.retain(|unsent| unsent.due < last);
    Some(last)
}
