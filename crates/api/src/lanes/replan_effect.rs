//! What placing a queue anew does to it, as the API tells it.

use crate::answer::of::Of;
use tollgate_contract as contract;
use tollgate_dispatch::ReplanEffect;

impl Of<ReplanEffect> for contract::Shift {
    fn of(effect: ReplanEffect) -> Self {
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
