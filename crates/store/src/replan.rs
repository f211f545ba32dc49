//! What both stores bound and say about replans.

use tollgate_core::id::LaneName;
use tollgate_core::ports::StoreError;

/// Counters of older generations are forgotten so many at a time.
pub(crate) const FORGOTTEN_AT_ONCE: u32 = 10_000;

pub(crate) fn another_replan(lane: &LaneName) -> StoreError {
    StoreError::Invalid(format!("another replan of lane \"{lane}\" has begun"))
}
