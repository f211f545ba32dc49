//! Events out: every move of an item, written by the transaction that makes it, kept until it is published. Whether
//! events are written is a state of the store, so all processes on it agree.

use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

use super::{Author, StoreResult};
use crate::Timestamp;
use crate::id::{Item, LaneName};
use crate::money::Money;

/// The backlog is counted up to this number of events; beyond it has at least one more.
pub const MOST_EVENTS_COUNTED: u64 = 100_000;

#[async_trait]
pub trait Outbox: Send + Sync {
    /// From its commit on every move of an item writes an event, whichever process makes it. False if that is so already.
    async fn turn_events_on(&self, author: Author) -> StoreResult<bool>;

    /// From its commit on no move writes an event; events that are not published are dropped. Refused while a process
    /// publishes.
    async fn turn_events_off(&self, author: Author) -> StoreResult<TurnedOff>;

    /// The right to publish, for so long; none while another process has it. What ends later than a lease can was taken by a clock
    /// that was ahead, and is no right.
    async fn hold_relay(&self, owner: &str, lease: Duration) -> StoreResult<Option<RelayHold>>;

    /// Gives the right back.
    async fn leave_relay(&self, owner: &str) -> StoreResult<()>;

    /// Keeps the settings of a process that has the right. Returns those of the one that has it.
    async fn relay_settings(&self, owner: &str, settings: &str) -> StoreResult<String>;

    /// Keeps, for so long, how the settings of another process differ from those of the one that publishes.
    async fn note_relay_difference(&self, what: &str, lease: Duration) -> StoreResult<()>;

    /// The oldest events that are committed, not published and not set aside, in the order of their numbers. Events of
    /// one item have the order of its moves. One with a lower number may turn up later, of another item: its transaction
    /// took longer.
    async fn events_to_publish(&self, limit: u32) -> StoreResult<Vec<OutboxEvent>>;

    /// These are published and are dropped. False, and nothing is dropped, if the right is another's by now.
    async fn events_published(&self, hold: RelayHold, numbers: Vec<i64>) -> StoreResult<bool>;

    /// These were refused, or are behind one of their item that was: they are set aside, where they hold up no others.
    /// Of one item those with the lowest numbers go first. False, and nothing has changed, if the right is another's by now.
    async fn events_refused(&self, hold: RelayHold, numbers: Vec<i64>) -> StoreResult<bool>;

    /// Events that were set aside, by item, those of one item in the order of their moves.
    async fn events_to_retry(
        &self,
        after: RetriedUpTo,
        limit: u32,
    ) -> StoreResult<Vec<OutboxEvent>>;

    /// Keeps the last trouble with publishing, and when the first of them began; without one, it is over.
    async fn note_relay_trouble(&self, trouble: Option<String>) -> StoreResult<()>;

    async fn outbox(&self) -> StoreResult<OutboxView>;
}

/// One move of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxEvent {
    /// By which it is dropped, and in whose order events are published.
    pub number: i64,
    /// The same whenever it is published, and never another's.
    pub id: String,
    pub item: Item,
    /// Where the item has moved: its status, or `HELD`, `DEAD` or `CANCELLED`.
    pub status: String,
    pub at: Timestamp,
    pub money: Money,
    /// None before it was planned.
    pub lane: Option<LaneName>,
    pub scheduled: Option<Timestamp>,
    /// An earlier event of its item is set aside: it goes after that one.
    pub is_behind: bool,
}

/// How far a look at the events that were set aside has come; from their beginning by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetriedUpTo {
    pub item_type: String,
    pub item_id: String,
    pub number: i64,
}

impl RetriedUpTo {
    /// Goes on with the next event of the same item, if it has one.
    pub fn event(event: &OutboxEvent) -> Self {
        Self {
            item_type: event.item.item_type.to_string(),
            item_id: event.item.id.to_string(),
            number: event.number,
        }
    }

    /// Goes on with the next item.
    pub fn item_of(event: &OutboxEvent) -> Self {
        Self {
            number: i64::MAX,
            ..Self::event(event)
        }
    }
}

/// Of one holding of the right to publish; the next holder has a higher fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayHold {
    pub fence: u64,
    /// Moves wrote events when the right was last renewed.
    pub is_on: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnedOff {
    /// So many events were not published.
    Yes { dropped: u64 },
    /// No events were written.
    WereOff,
    /// A process publishes them.
    InUse(String),
}

/// The outbox as people ask about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxView {
    /// Moves write events.
    pub is_on: bool,
    pub backlog: u64,
    /// There may be more than `backlog`.
    pub is_capped: bool,
    pub oldest: Option<Timestamp>,
    /// The process that publishes.
    pub owner: Option<String>,
    /// Published so far.
    pub published: u64,
    pub last_published_at: Option<Timestamp>,
    pub trouble: Option<OutboxTrouble>,
    /// How the settings of processes that would publish differ.
    pub difference: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxTrouble {
    pub what: String,
    pub at: Timestamp,
}

/// Where events go.
#[async_trait]
pub trait EventSink: Send + Sync {
    /// Publishes events with the same key in this order. What it acknowledges is durable.
    async fn publish(&self, events: &[EventRecord], now: Timestamp) -> Published;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    pub key: String,
    pub body_json: String,
}

/// What came of publishing some events.
#[derive(Debug, Default)]
pub struct Published {
    /// The places of those that are durable. None of a key without those before it.
    pub acknowledged: Vec<usize>,
    /// Why not all are.
    pub trouble: Option<SinkTrouble>,
}

/// One sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SinkTrouble(pub String);
