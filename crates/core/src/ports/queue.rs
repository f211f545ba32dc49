//! The queue: where items wait. Claims go by type and lane, under a token.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{ChunkId, Started, StatusMove, StoreResult};
use crate::Timestamp;
use crate::details::{Details, one};
use crate::guard::{Guard, Limit};
use crate::id::{BatchId, BulkId, Fence, FlowId, Item, ItemId, ItemType, LaneName};
use crate::lane_in_force::LaneInForce;
use crate::money::Money;
use crate::retry;

#[async_trait]
pub trait Queue: Send + Sync {
    /// Writes each item and its body, or neither, and answers in
    /// the order of `items`. An id that is known changes nothing: with the same content it gets
    /// the same answer, with other content a conflict. One bad item harms no other. Guards are
    /// judged in the order of `items`, and hold exactly whoever else admits at the same time.
    /// A request that waits for the item ends in the same transaction ([`super::Requests`]); while
    /// one with other content waits, or was withdrawn, the id is taken. An id that is known from the archive is taken
    /// for good, however recently its item was moved there.
    async fn admit(&self, item_type: &ItemType, items: Vec<NewItem>)
    -> StoreResult<Vec<Admission>>;

    /// Which open lanes have work that is due within `ahead` (or claims older than
    /// `stale_after`), and how long until the next item of any open lane comes into reach.
    async fn lanes_due(
        &self,
        item_type: &ItemType,
        ahead: Duration,
        stale_after: Duration,
    ) -> StoreResult<DueLanes>;

    /// Takes due items, oldest first, under a new token each, never more than `limit` nor than
    /// the lane's credit. Stale claims come along, as their next run: a flow that was started under the
    /// old claim no longer owns the item. An item whose context is missing becomes DEAD and is not
    /// returned.
    async fn claim(&self, claim: Claim) -> StoreResult<Vec<Claimed>>;

    /// Records what became of the starts: DISPATCHED, or READY again with one more retry after a
    /// pause ([`START_PAUSES`]), or DEAD at `max_retries`. A start whose token is no longer the item's changes nothing.
    /// Returns how many rows moved.
    async fn record_starts(
        &self,
        item_type: &ItemType,
        batch: &BatchId,
        starts: Vec<StartRecord>,
        max_retries: u32,
    ) -> StoreResult<u64>;

    /// What of these runs is still to be executed: items that have not ended, are claimed or dispatched,
    /// and are owned by the run named here.
    async fn to_execute(
        &self,
        item_type: &ItemType,
        runs: Vec<(ItemId, u32)>,
    ) -> StoreResult<Vec<ToExecute>>;

    /// Gives back what is still claimed under this batch: the engine or the store could not be reached, and that
    /// counts as no failure. The items are READY as their next run, since a flow may have been started nevertheless.
    async fn release(
        &self,
        item_type: &ItemType,
        lane: &LaneName,
        batch: &BatchId,
    ) -> StoreResult<u64>;

    /// Puts an item back to READY as its next run, after `pause`, without an attempt: the lane
    /// was closed, or it has to wait for something else. False if this run no longer owns the item.
    async fn put_back(
        &self,
        item: &Item,
        run: u32,
        pause: Duration,
        why: &str,
    ) -> StoreResult<bool>;

    /// The same without a pause, for an item that got no turn: it keeps the time at which it was due, and with it
    /// its place before everything that is due later. Only for a lane that nobody claims for while it is closed,
    /// or after a long wait: it is claimed again at once.
    async fn put_back_in_place(&self, item: &Item, run: u32, why: &str) -> StoreResult<bool>;

    /// As [`Queue::put_back`] after a failure of this item, such as a connection that could not be had: it counts
    /// (`History::failures`).
    async fn put_back_failed(
        &self,
        item: &Item,
        run: u32,
        pause: Duration,
        why: &str,
    ) -> StoreResult<bool>;

    /// Ends an item's life in the queue and moves its record, together. False if this run no
    /// longer owns the item; then nothing was changed.
    async fn finish(&self, item: &Item, run: u32, status: StatusMove) -> StoreResult<bool>;

    /// DISPATCHED items without an end that were dispatched longer than `older_than` ago.
    async fn orphaned(
        &self,
        item_type: &ItemType,
        older_than: Duration,
        limit: u32,
    ) -> StoreResult<Vec<Orphaned>>;

    /// Puts an item whose flow ended without finishing it back to READY as its next run, after
    /// `pause`; DEAD once that has happened `max_retries` times, at once if that is 0. False if it
    /// has moved on.
    async fn restart_orphaned(
        &self,
        item: &Item,
        run: u32,
        why: &str,
        pause: Duration,
        max_retries: u32,
    ) -> StoreResult<bool>;
}

/// Before an item whose flow could not be started is claimed again.
pub const START_PAUSES: retry::Policy = retry::Policy {
    max_attempts: u32::MAX,
    first_pause: Duration::from_secs(5),
    factor: retry::TWICE,
    longest_pause: Duration::from_mins(5),
};

#[derive(Debug, Clone)]
pub struct NewItem {
    pub id: ItemId,
    pub lane: LaneName,
    /// When it should run; `None` means now.
    pub requested: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
    /// Rather wait for a person than run after the deadline.
    pub hold_if_late: bool,
    pub record: NewRecord,
    /// What must still hold when it is written.
    pub guards: Vec<Guard>,
    /// One JSON: what was taken in, and what init has derived from it. Its exec flow gets it as its context.
    pub body: String,
    pub init_flow: FlowId,
}

impl NewItem {
    /// What every item has. By default it runs now and has no deadline and no guards; set `requested`, `deadline`,
    /// `hold_if_late` and `guards` of one that needs them.
    pub fn new(
        id: ItemId,
        lane: LaneName,
        record: NewRecord,
        body: impl Into<String>,
        init_flow: FlowId,
    ) -> Self {
        Self {
            id,
            lane,
            requested: None,
            deadline: None,
            hold_if_late: false,
            record,
            guards: vec![],
            body: body.into(),
            init_flow,
        }
    }

    /// What makes another item its duplicate; kept only if somebody asks for it.
    pub fn duplicate_key(&self) -> Option<&str> {
        self.guards.iter().find_map(|guard| match &guard.limit {
            Limit::NoDuplicate { key, .. } => Some(key.as_str()),
            Limit::DailyTotal { .. } => None,
        })
    }

    /// Whether its amount counts for its owner's day.
    pub fn is_counted(&self) -> bool {
        let is_total = |guard: &Guard| matches!(guard.limit, Limit::DailyTotal { .. });
        self.guards.iter().any(is_total)
    }

    /// Its owner, if it is ever looked for by that.
    pub fn sought_owner(&self) -> Option<&str> {
        let is_sought = self.record.by_owner || self.is_counted();
        is_sought.then_some(self.record.owner.as_str())
    }

    /// The bulk that it comes in.
    pub fn bulk(&self) -> Option<BulkId> {
        ChunkId::of_flow(&self.init_flow).map(|chunk| chunk.bulk)
    }
}

/// The business state of a new item.
#[derive(Debug, Clone)]
pub struct NewRecord {
    pub owner: String,
    /// Whether it is ever looked for by its owner ([`super::Records::owned`]): an index has it then.
    pub by_owner: bool,
    pub status: String,
    pub money: Money,
    /// Of the canonical request, before defaults were filled in.
    pub content_hash: String,
}

impl NewRecord {
    /// What every record has. By default it is not looked for by its owner; set `by_owner` of one that is. The three
    /// texts differ in type, so that none is taken for another: an owner is borrowed, a status is a constant, and a
    /// hash is owned.
    pub fn new(owner: &str, status: &'static str, money: Money, content_hash: String) -> Self {
        Self {
            owner: owner.to_owned(),
            by_owner: false,
            status: status.to_owned(),
            money,
            content_hash,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    New(Placed),
    /// Known already, with the same content: the same answer.
    Repeat(Placed),
    /// Known already, with other content.
    Conflict,
    /// Its lane cannot take it.
    Refused(String),
    /// One of its guards was against it: the rule's name and message.
    RefusedBy {
        rule: String,
        message: String,
    },
    /// Its request was withdrawn before it was planned.
    Cancelled,
    /// Known from the archive, with the same content: as a repeat.
    Archived,
    /// Known from the archive, and its content was erased: nobody can tell whether it is the same.
    Erased,
}

impl Admission {
    /// The name under which a lane refuses, as a rule would.
    pub const LANE: &str = "lane";

    /// Nothing was written for it.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::RefusedBy { .. })
    }

    /// Why it was refused, by the name of what refuses.
    pub fn refusal(&self) -> Option<Details> {
        match self {
            Self::Refused(message) => Some(one(Self::LANE, message)),
            Self::RefusedBy { rule, message } => Some(one(rule, message)),
            Self::New(_)
            | Self::Repeat(_)
            | Self::Conflict
            | Self::Cancelled
            | Self::Archived
            | Self::Erased => None,
        }
    }

    /// The same, the other way round.
    pub(super) fn refused_with(details: &Details) -> Option<Self> {
        let (rule, message) = details.iter().next()?;
        let (rule, message) = (rule.clone(), message.clone());
        Some(if rule == Self::LANE {
            Self::Refused(message)
        } else {
            Self::RefusedBy { rule, message }
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Placed {
    pub lane: LaneName,
    pub scheduled: Timestamp,
    pub deadline: Option<Timestamp>,
    pub init_flow: FlowId,
}

impl Placed {
    pub fn new(
        lane: LaneName,
        scheduled: Timestamp,
        deadline: Option<Timestamp>,
        init_flow: FlowId,
    ) -> Self {
        Self {
            lane,
            scheduled,
            deadline,
            init_flow,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DueLanes {
    pub lanes: Vec<LaneName>,
    pub next_in: Option<Duration>,
}

impl DueLanes {
    /// Adds a lane whose first work comes into reach at `first`.
    pub fn add(&mut self, lane: &LaneInForce, first: Option<Timestamp>, now: Timestamp) {
        let Some(from) = first.and_then(|first| lane.state(now).workable_from(first)) else {
            return;
        };
        if from <= now {
            self.lanes.push(lane.name.clone());
            return;
        }
        let wait = Duration::try_from(from.duration_since(now)).unwrap_or_default();
        self.next_in = Some(self.next_in.map_or(wait, |other| other.min(wait)));
    }
}

#[derive(Debug, Clone)]
pub struct Claim {
    pub item_type: ItemType,
    pub lane: LaneName,
    pub batch: BatchId,
    pub ahead: Duration,
    pub stale_after: Duration,
    pub limit: u32,
    /// The lane's credit is what its gate can send in this time, less what is already claimed or
    /// dispatched and has not had its turn.
    pub credit_horizon: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    pub id: ItemId,
    pub fence: Fence,
    pub run: u32,
    /// Until the item's time; zero when it has come.
    pub delay: Duration,
    /// Its time is its slot, and not one that it was put back to.
    pub on_slot: bool,
    pub context_json: String,
}

#[derive(Debug, Clone)]
pub struct StartRecord {
    pub id: ItemId,
    pub fence: Fence,
    pub flow: FlowId,
    pub started: Started,
}

/// One item of a flow that executes several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToExecute {
    pub id: ItemId,
    pub run: u32,
    /// Until the item's time; zero when it has come.
    pub delay: Duration,
    pub context_json: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphaned {
    pub id: ItemId,
    pub run: u32,
    /// The flow that was started for it, perhaps with others.
    pub flow: FlowId,
    pub retry_count: u32,
}
