//! Lanes and their calendars: configuration, versioned; windows; and the proof of the rate.

use std::time::Duration;

use async_trait::async_trait;

use super::{Author, StoreResult};
use crate::Timestamp;
use crate::calendar::CalendarText;
use crate::certificate::Certificate;
use crate::id::{CalendarName, LaneName};
use crate::lane::LaneChange;
use crate::lane_in_force::LaneInForce;

#[async_trait]
pub trait Lanes: Send + Sync {
    async fn lane(&self, name: &LaneName) -> StoreResult<Option<LaneInForce>>;

    async fn lanes(&self) -> StoreResult<Vec<LaneInForce>>;

    /// Changes a lane, or creates it, as a new version; `Invalid` names the wrong field and
    /// leaves everything as it was. Counters keep what was assigned; a changed window size
    /// rewrites the future windows in the same transaction.
    async fn change_lane(
        &self,
        name: &LaneName,
        change: LaneChange,
        author: Author,
    ) -> StoreResult<LaneInForce>;

    /// Changes a lane that is still at this version, and begins a replan (see `Plans`) by the new numbers, in one
    /// transaction: a process that dies afterwards leaves a replan to finish. The lane and the generation; `None`
    /// and nothing changed if another version is in force.
    async fn adjust_lane(
        &self,
        name: &LaneName,
        version: i64,
        change: LaneChange,
        author: Author,
    ) -> StoreResult<Option<(LaneInForce, i64)>>;

    /// No turn for so long, from now on; a shorter wish never shortens a longer one. Audited.
    async fn close_lane(&self, name: &LaneName, time: Duration, author: Author) -> StoreResult<()>;

    async fn calendars(&self) -> StoreResult<Vec<CalendarInForce>>;

    /// Writes a calendar's next version; it binds all lanes that name it. `Invalid` says what is
    /// wrong with it and leaves everything as it was. Slots already given stay where they are.
    async fn put_calendar(
        &self,
        name: &CalendarName,
        text: CalendarText,
        author: Author,
    ) -> StoreResult<CalendarInForce>;

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
pub struct CalendarInForce {
    pub name: CalendarName,
    pub version: i64,
    pub text: CalendarText,
    /// From here on it binds every node.
    pub effective_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowUse {
    pub start: Timestamp,
    pub used: u32,
}
