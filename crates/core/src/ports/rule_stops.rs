//! Rules at execution: what is not sent because of the rules in force now, and what would not be.

use async_trait::async_trait;

use super::{StatusMove, StoreResult};
use crate::Timestamp;
use crate::id::{Item, ItemId, ItemType, LaneName};
use crate::item::QueueStatus;

#[async_trait]
pub trait RuleStops: Send + Sync {
    /// Rules are against an item that this run is about to send: it is HELD until a person
    /// decides, or its record is moved and its run ends it. False, and nothing changes, if the run does not own
    /// the item or if the item may have been done already.
    async fn stop_by_rules(&self, item: &Item, run: u32, stop: RuleStop) -> StoreResult<bool>;

    /// Items with this record status in the order of their ids, as rules see them. One page; the
    /// next begins after its last id.
    async fn with_status(
        &self,
        item_type: &ItemType,
        status: &str,
        after: Option<&ItemId>,
        limit: u32,
    ) -> StoreResult<Vec<Judged>>;
}

#[derive(Debug, Clone)]
pub struct RuleStop {
    /// Who stops it, of [`crate::actor`]: the rules, or the sender that can make no request of it.
    pub actor: &'static str,
    /// What a release lets pass: each rule in the words it has now.
    pub rules: Vec<String>,
    pub why: String,
    /// How its record ends; it is HELD if there is none.
    pub rejected: Option<StatusMove>,
}

/// What rules look at in one item.
#[derive(Debug, Clone)]
pub struct Judged {
    pub id: ItemId,
    pub queue_status: QueueStatus,
    pub has_ended: bool,
    pub lane: LaneName,
    /// None if it was lost.
    pub body: Option<String>,
    pub requested: Timestamp,
    pub due: Timestamp,
    /// The rules that a person let it pass.
    pub passed_rules: Vec<String>,
}

/// Rules in one column: their names contain no spaces.
pub fn joined_rules(rules: &[String]) -> String {
    rules.join(" ")
}

/// The same, read back.
pub fn split_rules(rules: Option<&str>) -> Vec<String> {
    let names = rules.unwrap_or_default().split_ascii_whitespace();
    names.map(str::to_owned).collect()
}
