//! Payments in doubt, as people work through them: those whose record is `IN_DOUBT`.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{
    ActionResult, Author, ByTime, History, LONGEST_SEND, Page, PageFrom, PageToken, Past,
    StatusMove, StoreResult,
};
use crate::Timestamp;
use crate::gate::MAX_TOLERANCE;
use crate::id::{Item, ItemId, ItemType};
use crate::outcome::AttemptState;

#[async_trait]
pub trait Doubts: Send + Sync {
    /// The ids of what is in doubt, in their order, after one of them.
    async fn in_doubt(
        &self,
        item_type: &ItemType,
        after: Option<&ItemId>,
        limit: u32,
    ) -> StoreResult<Vec<ItemId>>;

    /// The same in another order, beside a place in it.
    async fn in_doubt_by(
        &self,
        item_type: &ItemType,
        order: DoubtOrder,
        from: PageFrom<PageToken>,
        limit: u32,
    ) -> StoreResult<Page<ItemId, PageToken>>;

    /// What is at risk, by currency.
    async fn at_risk(&self, item_type: &ItemType) -> StoreResult<Vec<AtRisk>>;

    /// Writes down evidence from elsewhere that an item in doubt was done, as a question that was
    /// answered, and makes the item due: its own flow ends it. Not while an answer is awaited.
    async fn note_done(&self, item: &Item, evidence: Author) -> StoreResult<ActionResult>;

    /// A person decides what became of an item in doubt; recorded with who and why. Not while an
    /// answer is awaited, nor when it was sent since they looked. Whoever else works on the item
    /// finds it taken, and what a dead sender left open is Unknown from here on.
    async fn resolve(
        &self,
        item: &Item,
        resolution: Resolution,
        author: Author,
    ) -> StoreResult<ActionResult>;
}

/// What comes first when people work through it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DoubtOrder {
    /// By when it came into doubt.
    ByTime(ByTime),
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
    /// How often the item had been sent when the person looked: their word is about those sends.
    pub sends: u32,
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

/// What decides whether a doubt can be ended from outside, read while nobody can open an attempt.
#[derive(Debug, Clone)]
pub struct ItemInDoubt {
    pub record_status: String,
    pub history: History,
}

impl ItemInDoubt {
    /// Why evidence from elsewhere cannot end it.
    pub fn refuses_evidence(&self) -> Option<String> {
        self.not_in_doubt()
            .or_else(|| self.was_done().then(|| DONE.to_owned()))
            .or_else(|| self.is_awaited().then(|| AWAITED.to_owned()))
    }

    /// Why a person's word cannot. What the downstream has said to be done ends by itself; while
    /// its lane is closed or its gateway gone, a person may agree.
    pub fn refuses(&self, resolution: &Resolution) -> Option<String> {
        let is_against = self.was_done() && resolution.resolved != Resolved::Done;
        self.not_in_doubt()
            .or_else(|| is_against.then(|| DONE.to_owned()))
            .or_else(|| sent_since(resolution.sends, self.history.sends()))
            .or_else(|| self.is_awaited().then(|| AWAITED.to_owned()))
    }

    /// What is left of a sender that is gone, unless an answer is awaited.
    pub fn open(&self) -> Option<&Past> {
        let mut past = self.history.past.iter();
        past.find(|past| past.state == AttemptState::Open)
    }

    fn not_in_doubt(&self) -> Option<String> {
        let status = &self.record_status;
        (status != IN_DOUBT).then(|| format!("it is {status}, not {IN_DOUBT}"))
    }

    fn was_done(&self) -> bool {
        let mut past = self.history.past.iter();
        past.any(|past| past.state == AttemptState::Done)
    }

    /// Longer than a step may take, nobody waits for an answer.
    fn is_awaited(&self) -> bool {
        let History { era, now, .. } = self.history;
        let answered_by = |open: &Past| open.usable_until(era, MAX_TOLERANCE) + LONGEST_SEND;
        self.open().is_some_and(|open| now < answered_by(open))
    }
}

/// Why a person's word is not about all sends: what was heard of an earlier one says nothing about
/// a later one.
pub fn sent_since(seen: u32, sends: u32) -> Option<String> {
    let why =
        || format!("you gave {seen} as the number of sends, but it is now {sends}; check again");
    (sends != seen).then(why)
}

/// Told, too, when the answer comes while a doubt is being ended.
pub const AWAITED: &str = "an answer is still awaited; try again in a moment";
const DONE: &str =
    "the downstream has confirmed it; it completes by itself, or can be resolved as done";

/// The record's status while nobody knows whether it was done.
pub const IN_DOUBT: &str = "IN_DOUBT";
