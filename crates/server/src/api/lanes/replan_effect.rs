//! What placing a queue anew does to it, as the API tells it.

use serde::Serialize;
use tollgate_core::Timestamp;
use tollgate_dispatch::ReplanEffect;
use utoipa::ToSchema;

/// Effect of a replan.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Shift)]
pub(super) struct ReplanEffectResponse {
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

impl From<ReplanEffect> for ReplanEffectResponse {
    fn from(effect: ReplanEffect) -> Self {
        Self {
            waiting: effect.waiting,
            earlier: effect.earlier,
            later: effect.later,
            finish_before: effect.finish_before,
            finish_after: effect.finish_after,
            deadlines_won: effect.deadlines_won,
            deadlines_lost: effect.deadlines_lost,
            missed_before: effect.missed_before,
            missed_after: effect.missed_after,
            never: effect.never,
            untold: effect.untold,
            with_deadline: effect.with_deadline,
        }
    }
}
