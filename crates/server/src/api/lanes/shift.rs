//! What placing a queue anew does to it, as the API tells it.

use serde::Serialize;
use tollgate_core::Timestamp;
use tollgate_dispatch::Shift;
use utoipa::ToSchema;

/// Effect of a replan.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Shift)]
pub(super) struct ShiftResponse {
    waiting: u64,
    earlier: u64,
    later: u64,
    finish_before: Option<Timestamp>,
    finish_after: Option<Timestamp>,
    deadlines_won: u64,
    pub(super) deadlines_lost: u64,
    missed_before: u64,
    pub(super) missed_after: u64,
    /// Items for which the lane never opens. They keep their slots.
    never: u64,
    /// Items for which no estimate is available.
    untold: u64,
    with_deadline: u64,
}

impl From<Shift> for ShiftResponse {
    fn from(shift: Shift) -> Self {
        Self {
            waiting: shift.waiting,
            earlier: shift.earlier,
            later: shift.later,
            finish_before: shift.finish_before,
            finish_after: shift.finish_after,
            deadlines_won: shift.deadlines_won,
            deadlines_lost: shift.deadlines_lost,
            missed_before: shift.missed_before,
            missed_after: shift.missed_after,
            never: shift.never,
            untold: shift.untold,
            with_deadline: shift.with_deadline,
        }
    }
}
