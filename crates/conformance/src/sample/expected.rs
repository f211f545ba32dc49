//! What the sample flow must come to, worked out without any engine.

use std::collections::BTreeMap;

use tollgate_core::flow::StepError;

use super::{CHILD_ROUNDS, PARTS, REFUSED, SampleOut};

/// The effects of the parent by `round/name`, and those of its child.
pub fn effects(rounds: i64) -> (BTreeMap<String, i64>, BTreeMap<String, i64>) {
    let mut parent = BTreeMap::new();
    for round in 1..=rounds {
        parent.insert(format!("{round}/first"), round);
        parent.insert(format!("{round}/second"), 2 * round);
        for part in 0..PARTS {
            parent.insert(format!("{round}/part-{part}"), 10 * round + part);
        }
        parent.insert(format!("{round}/stumble"), 100 * round);
    }
    let child = (1..=CHILD_ROUNDS).map(|round| (format!("{round}/child"), 1000 * round));
    (parent, child.collect())
}

/// The result: every effect once, and the child's total in each round.
pub fn outcome(rounds: i64) -> SampleOut {
    let (parent, child) = effects(rounds);
    SampleOut {
        total: parent.values().sum::<i64>() + rounds * child.values().sum::<i64>(),
        parts: (0..PARTS).map(|part| 10 * rounds + part).collect(),
        refusals: [StepError::last(REFUSED), StepError::retryable(REFUSED)],
    }
}
