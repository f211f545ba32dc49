//! What a time of day means on the days when clocks change. Calendars and schedules go by it, so
//! that what is to happen at a local time happens once.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::Timestamp;

/// When the clocks of a zone first show this; right after the gap if they never do. `None` where
/// there is no more time.
pub fn instant(shown: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(shown);
    let earlier = ambiguous.earlier().ok()?;
    match ambiguous.offset() {
        AmbiguousOffset::Gap { .. } => {
            let mut changes = zone.following(earlier);
            changes.next().map(|change| change.timestamp())
        }
        AmbiguousOffset::Fold { .. } | AmbiguousOffset::Unambiguous { .. } => Some(earlier),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_a_gap_is_right_after_it_and_one_that_comes_twice_is_the_first() {
        let table = [
            ("2026-03-08T01:59", "2026-03-08T06:59:00Z"),
            ("2026-03-08T02:00", "2026-03-08T07:00:00Z"),
            ("2026-03-08T02:30", "2026-03-08T07:00:00Z"),
            ("2026-03-08T03:00", "2026-03-08T07:00:00Z"),
            ("2026-11-01T01:30", "2026-11-01T05:30:00Z"),
            ("2026-11-01T02:00", "2026-11-01T07:00:00Z"),
        ];
        let zone = TimeZone::get("America/New_York").unwrap();
        for (shown, expected) in table {
            let at = instant(shown.parse().unwrap(), &zone);
            assert_eq!(
                at.map(|at| at.to_string()).as_deref(),
                Some(expected),
                "{shown}"
            );
        }
        assert_eq!(instant(DateTime::MAX, &zone), None);
    }
}
