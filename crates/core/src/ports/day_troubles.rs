//! Days of the archive that are not in order. What is noted here outlives every process, until the step goes well.

use async_trait::async_trait;

use super::StoreResult;
use crate::archive::{ArchiveDay, DayStep, DayTrouble};
use crate::id::ItemType;

#[async_trait]
pub trait DayTroubles: Send + Sync {
    /// A step failed. Repeated, it keeps the time of its first failure and takes the new reason. A failure of a step with
    /// the file of a day takes the place of an earlier one ([`DayStep::ends`]).
    async fn note_day_trouble(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        step: DayStep,
        why: &str,
    ) -> StoreResult<()>;

    /// A step went well: what was noted of it, and of the steps that it ends, is over. Returns whether there was any.
    async fn end_day_trouble(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        step: DayStep,
    ) -> StoreResult<bool>;

    /// What is noted, the oldest day first.
    async fn day_troubles(&self, limit: u32) -> StoreResult<Vec<DayTrouble>>;
}
