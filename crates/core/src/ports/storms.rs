//! Refusal storms: what the store counts about connectors, and what a person can undo.

use std::time::Duration;

use async_trait::async_trait;

use super::{Page, StoreResult};
use crate::Timestamp;
use crate::actor;
use crate::id::{AttemptId, Item, ItemId, ItemType, LaneName, StormId, WatchId};
use crate::lane::Pause;
use crate::money::Money;
use crate::storm::{Limits, SUSPECT_FOR};

#[async_trait]
pub trait Storms: Send + Sync {
    /// The configuration that a connector starts with. Another one than it last had begins a
    /// canary; the same one again goes on where it was.
    async fn watch(&self, watch: NewWatch) -> StoreResult<WatchId>;

    /// The newest storms first.
    async fn storms(&self, limit: u32) -> StoreResult<Vec<Storm>>;

    async fn storm(&self, id: StormId) -> StoreResult<Option<Storm>>;

    /// What was refused in a storm and still is, in the order of its sends.
    async fn refused_in(
        &self,
        id: StormId,
        item_type: &ItemType,
        after: Option<AttemptId>,
        limit: u32,
    ) -> StoreResult<Page<RefusedItem, AttemptId>>;

    /// Whether the last refusal of an item may be part of a storm.
    async fn suspicion(&self, item: &Item) -> StoreResult<Suspicion>;
}

/// A connector as it is configured now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWatch {
    pub lane: LaneName,
    /// As it is called in messages.
    pub connector: String,
    /// Differs whenever the configuration does.
    pub digest: String,
    pub limits: Limits,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storm {
    pub id: StormId,
    pub lane: LaneName,
    pub connector: String,
    pub reason: String,
    pub since: Timestamp,
    /// When a person resumed the lane.
    pub lifted_at: Option<Timestamp>,
}

/// What a storm does to its lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StormPause {
    pub id: StormId,
    pub reason: String,
    pub since: Timestamp,
}

impl StormPause {
    pub fn pause(&self) -> Pause {
        Pause {
            since: Some(self.since),
            ..Pause::now(actor::STORM, pause_reason(self.id, &self.reason))
        }
    }
}

/// As the pause of a lane and the audit log say it.
pub fn pause_reason(id: StormId, reason: &str) -> String {
    format!("refusal storm {}: {reason}", id.0)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedItem {
    pub id: ItemId,
    pub attempt: AttemptId,
    pub money: Money,
}

/// Whether a refusal is announced now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspicion {
    /// It is a refusal like any other.
    None,
    /// The lane is paused by a storm.
    Storm,
    /// Nothing was accepted after it so far: look again after this time at the latest.
    Possible(Duration),
}

impl Suspicion {
    /// Of a refusal outside of a storm.
    pub fn of(accepted_since: bool, refused_at: Timestamp, now: Timestamp) -> Self {
        let end = refused_at + SUSPECT_FOR;
        match Duration::try_from(end.duration_since(now)) {
            Ok(left) if !accepted_since && !left.is_zero() => Self::Possible(left),
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_suspect_until_something_is_accepted_or_half_a_minute_has_passed() {
        let at = |secs: i64| Timestamp::from_second(1_800_000_000 + secs).unwrap();
        let said = |accepted, secs| Suspicion::of(accepted, at(0), at(secs));
        assert_eq!(
            said(false, 10),
            Suspicion::Possible(Duration::from_secs(20))
        );
        assert_eq!(said(true, 10), Suspicion::None);
        assert_eq!(said(false, 30), Suspicion::None);
    }
}
