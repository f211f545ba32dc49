//! Lists as people go through them: the newest first, to and fro, and by what an index finds.

use std::cmp::Ordering;

use async_trait::async_trait;

use super::{PageToken, RecordLine, RequestState, RequestView, StoreResult};
use crate::Timestamp;
use crate::id::{Item, ItemId, ItemType};

/// A list that an index finds is put into order as a whole up to this size, and counted up to it.
pub const MOST_SORTED: u32 = 10_000;

#[async_trait]
pub trait Lists: Send + Sync {
    /// All items of a type beside a place, by when they were accepted: older ones, the newest first, or newer ones,
    /// the oldest first.
    async fn items_beside(&self, wanted: BesideWanted) -> StoreResult<Vec<ListKey>>;

    /// Requests that are shown beside a place, in the same way.
    async fn requests_beside(
        &self,
        wanted: BesideWanted,
        state: Option<RequestState>,
    ) -> StoreResult<Vec<RequestView>>;

    /// The items that an index finds, if there are no more than `at_most`.
    async fn items_found(
        &self,
        item_type: &ItemType,
        by: FoundBy,
        at_most: u32,
    ) -> StoreResult<Found>;

    /// How many a list has, and no more than `at_most`.
    async fn counted(&self, list: Counted, at_most: u32) -> StoreResult<u64>;

    /// These items as lists show them, in no order; none of an item that is not there.
    async fn record_lines(&self, items: &[Item]) -> StoreResult<Vec<RecordLine>>;
}

/// Where an item is in a list by time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListKey {
    /// When it was accepted; to the same clock as the others of its list.
    pub at: Timestamp,
    pub id: ItemId,
}

impl Ord for ListKey {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.id.as_str()).cmp(&(other.at, other.id.as_str()))
    }
}

impl PartialOrd for ListKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl ListKey {
    pub fn page_token(&self) -> PageToken {
        PageToken::new(self.at.as_microsecond(), &self.id)
    }

    /// None if its time is beyond what clocks show.
    pub fn at_page_token(page_token: &PageToken) -> Option<Self> {
        Some(Self {
            at: Timestamp::from_microsecond(page_token.rank).ok()?,
            id: ItemId::new(page_token.id.as_str()),
        })
    }
}

#[derive(Debug, Clone)]
pub struct BesideWanted {
    pub item_type: ItemType,
    /// The end of the list without it.
    pub place: Option<ListKey>,
    pub newer: bool,
    /// About the time of acceptance, to the minute: the caller compares exactly.
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    pub limit: u32,
}

/// What comes first in a list by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByTime {
    Newest,
    Oldest,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// All of them, in no order.
    All(Vec<ListKey>),
    /// More than were asked for.
    TooMany,
    /// They have one of the usual ends, which an index need not list, among more items than were asked for: a list by
    /// time finds them.
    Unlisted,
}

/// Statuses in which nearly all items end.
pub const USUAL_ENDS: [&str; 2] = ["PROCESSING", "DELIVERED"];

/// What an index serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundBy {
    Status(String),
    Held,
    /// Account of debtor or creditor, of payments.
    Account(String),
    /// Of payments.
    Reference(String),
    /// Whom it belongs to, such as an invoice's customer.
    Owner(String),
}

/// A list that is counted by its index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    Dead(ItemType),
    Imports(ItemType),
    Jobs,
    StatusChecks,
    Audit,
    AuditOfItem(Item),
    AuditOfAction(String),
    AuditOfActor(String),
    AuditOfPeople,
}
