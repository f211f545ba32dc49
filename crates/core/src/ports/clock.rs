//! The one clock that decides about time shared between nodes: the database's.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreResult;
use crate::Timestamp;
use crate::gate::LATEST_USE;

/// What the shared clock shows, and in which life of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    pub now: Timestamp,
    /// Another number after a failover or a restore: what was reserved before may be gone.
    pub timeline: u32,
}

/// A stretch in which the shared clock is known to have run evenly. Only times of one era tell how
/// long something took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Era {
    pub number: i64,
    /// When it was opened, by its own clock.
    pub since: Timestamp,
}

impl Era {
    /// From here on nobody uses a turn that was given before this era, by this era's clock. Not
    /// every node notices that an era ends: one that another machine's start has opened is no jump.
    pub fn older_turns_end(self) -> Timestamp {
        self.since + LATEST_USE
    }
}

/// What outlives a node's process and still knows how much time has passed: its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot {
    /// Another one after each start of the machine.
    pub id: String,
    /// When the machine started, by the shared clock as it is now.
    pub began: Timestamp,
}

impl Boot {
    /// Two readings of one boot's beginning lie within this, unless the clock was set between them.
    const SAME_WITHIN: Duration = Duration::from_millis(100);

    /// Whether this boot began when it was said before to have begun.
    pub fn began_at(&self, before: Timestamp) -> bool {
        self.began.duration_since(before).unsigned_abs() <= Self::SAME_WITHIN
    }
}

#[async_trait]
pub trait SharedClock: Send + Sync {
    async fn now(&self) -> StoreResult<Timestamp> {
        Ok(self.read_clock().await?.now)
    }
    async fn read_clock(&self) -> StoreResult<Reading>;

    /// A node starts. The era goes on if a node of the same boot has vouched for it before and the
    /// boot still began when it said; otherwise nobody knows what the clock did meanwhile, and a
    /// new era opens.
    async fn vouch(&self, boot: Option<Boot>) -> StoreResult<()>;

    /// The clock has jumped: a new era opens, and only this boot vouches for it. With every new
    /// era, what was started by a clock that was ahead of this one is made due again: flows keep
    /// their delay, and items that were claimed or dispatched and have had no turn are READY as
    /// their next run, at once or at the time that was asked for.
    async fn open_era(&self, boot: Option<Boot>) -> StoreResult<()>;
}

/// What was started later than this from now was started by a clock that was ahead.
pub const CLOCK_WAS_AHEAD: Duration = Duration::from_secs(1);

/// What is said of an item that such a clock had started.
pub const WAS_SET_BACK: &str = "the clock was set back after it was dispatched";
