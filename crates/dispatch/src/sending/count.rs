//! Exchanges with downstreams, counted by what became of them.

use tollgate_core::id::LaneName;
use tollgate_core::outcome::{AttemptKind, AttemptState};

/// Every outcome begins at zero: a share can be told from the first exchange on.
pub(crate) fn begin(lane: &LaneName) {
    let ends = AttemptState::ALL
        .into_iter()
        .filter(|state| *state != AttemptState::Open);
    for outcome in ends {
        for kind in AttemptKind::ALL {
            count(lane, kind, outcome, 0);
        }
    }
}

pub(crate) fn exchange(lane: &LaneName, kind: AttemptKind, outcome: AttemptState) {
    count(lane, kind, outcome, 1);
}

fn count(lane: &LaneName, kind: AttemptKind, outcome: AttemptState, by: u64) {
    let labels = [
        ("lane", lane.to_string()),
        ("kind", kind.as_str().to_lowercase()),
        ("outcome", outcome.as_str().to_lowercase()),
    ];
    metrics::counter!("tollgate_sends_total", &labels).increment(by);
}
