//! Lanes: their configuration, versioned, and their windows.

use std::time::Duration;

use async_trait::async_trait;

use super::{Author, StoreResult};
use crate::Timestamp;
use crate::certificate::Certificate;
use crate::id::LaneName;
use crate::lane::{Lane, LaneChange};

#[async_trait]
pub trait Lanes: Send + Sync {
    async fn lane(&self, name: &LaneName) -> StoreResult<Option<LaneVersion>>;

    async fn lanes(&self) -> StoreResult<Vec<LaneVersion>>;

    /// Changes a lane, or creates it, as a new version; `Invalid` names the wrong field and
    /// leaves everything as it was. Counters keep what was assigned; a changed window size
    /// rewrites the future windows in the same transaction.
    async fn change_lane(
        &self,
        name: &LaneName,
        change: LaneChange,
        author: Author,
    ) -> StoreResult<LaneVersion>;

    /// The lane's windows from `from` on, in order.
    async fn windows(
        &self,
        name: &LaneName,
        from: Timestamp,
        limit: u32,
    ) -> StoreResult<Vec<WindowUse>>;

    /// The proof of a lane's rate between two times, from its send log.
    async fn certificate(
        &self,
        name: &LaneName,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<Certificate>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneVersion {
    pub name: LaneName,
    pub version: i64,
    pub lane: Lane,
    /// From here on the change binds every node.
    pub effective_at: Timestamp,
    /// Closed by the downstream (`Retry-After`) until then.
    pub closed_for: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowUse {
    pub start: Timestamp,
    pub used: u32,
}
