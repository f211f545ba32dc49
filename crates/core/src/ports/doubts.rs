//! Payments in doubt, as people work through them: those whose record is `IN_DOUBT`.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Author, Bookmark, Intervened, Page, StatusMove, StoreResult};
use crate::Timestamp;
use crate::id::{Item, ItemId, ItemType};

#[async_trait]
pub trait Doubts: Send + Sync {
    /// The ids of what is in doubt, in their order, after one of them.
    async fn in_doubt(
        &self,
        item_type: &ItemType,
        after: Option<&ItemId>,
        limit: u32,
    ) -> StoreResult<Vec<ItemId>>;

    /// The same in another order, after a place in it.
    async fn in_doubt_by(
        &self,
        item_type: &ItemType,
        order: DoubtOrder,
        after: Option<Bookmark>,
        limit: u32,
    ) -> StoreResult<Page<ItemId, Bookmark>>;

    /// What is at risk, by currency.
    async fn at_risk(&self, item_type: &ItemType) -> StoreResult<Vec<AtRisk>>;

    /// Writes down evidence from elsewhere that an item in doubt was done, as a question that was
    /// answered, and makes the item due: its own flow ends it. Not while an attempt is under way.
    async fn note_done(&self, item: &Item, evidence: Author) -> StoreResult<Intervened>;

    /// A person decides what became of an item in doubt; recorded with who and why. Not while an
    /// attempt is under way. Whoever else works on the item finds it taken.
    async fn resolve(
        &self,
        item: &Item,
        resolution: Resolution,
        author: Author,
    ) -> StoreResult<Intervened>;
}

/// What comes first when people work through it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DoubtOrder {
    /// What is in doubt for the longest time.
    Oldest,
    /// The largest amount; those of two currencies do not compare.
    Largest { currency: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AtRisk {
    pub currency: String,
    pub count: u64,
    pub amount_minor: i64,
    /// Since when the oldest is in doubt.
    pub since: Timestamp,
}

/// A decision, and how the record moves with it.
#[derive(Debug, Clone)]
pub struct Resolution {
    pub resolved: Resolved,
    pub record: StatusMove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolved {
    /// The downstream did it: the item has ended.
    Done,
    /// The downstream did not do it: it is sent again, as soon as its lane allows.
    NotDone,
    /// Nobody pays it any more: the item has ended.
    Failed,
}

impl Resolved {
    pub const ALL: [Self; 3] = [Self::Done, Self::NotDone, Self::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NotDone => "not_done",
            Self::Failed => "failed",
        }
    }
}

/// Why a doubt cannot be ended this way, by a person or by evidence. What the downstream has said
/// to be done ends by itself; while its lane is closed or its gateway gone, a person may agree.
pub fn cannot_resolve(
    record_status: &str,
    has_open_attempt: bool,
    was_done: bool,
    by_person: Option<Resolved>,
) -> Option<String> {
    if record_status != IN_DOUBT {
        return Some(format!("it is {record_status}, not {IN_DOUBT}"));
    }
    if was_done && by_person != Some(Resolved::Done) {
        return Some(
            "the downstream has said that it is done; it ends by itself, or is resolved as done"
                .to_owned(),
        );
    }
    has_open_attempt.then(|| "an answer is being awaited; try again in a moment".to_owned())
}

/// The record's status while nobody knows whether it was done.
pub const IN_DOUBT: &str = "IN_DOUBT";
