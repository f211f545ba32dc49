//! How long a receiver is tried: for days, in growing pauses, and not for ever. Pure.

use std::time::Duration;

use tollgate_core::ports::AuditEntry;
use tollgate_core::retry;
use tollgate_core::{SignedDuration, Timestamp};

/// Between two tries, by how often it failed. That there is no last one here is on purpose: when
/// it is enough is asked elsewhere.
pub const PAUSES: retry::Policy = retry::Policy {
    max_attempts: u32::MAX,
    first_pause: Duration::from_secs(1),
    factor: retry::TWICE,
    longest_pause: Duration::from_hours(6),
};

/// A notification is tried for at least this long …
pub const AT_LEAST_FOR: SignedDuration = SignedDuration::from_hours(72);
/// … and has had at least this many runs: one that waited on a closed lane has not been tried.
const AT_LEAST_RUNS: u32 = 20;

/// Whether a notification that was tried in vain is given up before this run.
pub(super) fn is_enough(run: u32, since: Timestamp, now: Timestamp) -> bool {
    run > AT_LEAST_RUNS && now.duration_since(since) >= AT_LEAST_FOR
}

/// Since when it has been tried: since it was made, or since somebody replayed it after it had
/// been given up. `audit` is its trail, newest first.
pub(super) fn tried_since(made: Timestamp, audit: &[AuditEntry], now: Timestamp) -> Timestamp {
    let is_death = |entry: &AuditEntry| entry.status_after.as_deref() == Some("DEAD");
    match audit.iter().position(is_death) {
        None => made,
        Some(death) => audit[..death].last().map_or(now, |entry| entry.at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + hours * 3600).unwrap()
    }

    #[test]
    fn the_pauses_lead_to_about_three_days() {
        let runs = 1..=AT_LEAST_RUNS;
        let secs: u64 = runs.map(|run| PAUSES.pause_after(run).as_secs()).sum();
        assert!((36..72).contains(&(secs / 3600)), "{} h", secs / 3600);
    }

    #[test]
    fn it_is_enough_after_three_days_and_twenty_runs_and_not_before() {
        let table = [
            (2, 1, false),
            (21, 71, false),
            (20, 1000, false),
            (21, 72, true),
            (99, 73, true),
            (99, -5, false),
        ];
        for (run, hours, enough) in table {
            assert_eq!(is_enough(run, at(0), at(hours)), enough, "{run} {hours}");
        }
    }

    #[test]
    fn a_replay_begins_anew() {
        let entry = |hours, after: &str| AuditEntry {
            id: 0,
            at: at(hours),
            batch: None,
            item: None,
            action: String::new(),
            status_before: None,
            status_after: Some(after.to_owned()),
            actor: String::new(),
            detail: String::new(),
        };
        let table = [
            (vec![], 0),
            (vec![entry(2, "READY"), entry(1, "READY")], 0),
            (vec![entry(80, "DEAD"), entry(1, "READY")], 500),
            (
                vec![entry(95, "READY"), entry(90, "READY"), entry(80, "DEAD")],
                90,
            ),
        ];
        for (audit, since) in table {
            assert_eq!(tried_since(at(0), &audit, at(500)), at(since), "{audit:?}");
        }
    }
}
