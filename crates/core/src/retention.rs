//! How long an item stays where after it has ended: in the hot tables, in the archive of the database, and as an id that
//! is never taken again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

const DAY: Duration = Duration::from_hours(24);
const DAYS_A_YEAR: u32 = 365;
/// A hundred years are for ever.
const MOST_DAYS: u32 = 36_500;
const MOST_YEARS: u32 = 100;

/// The three ages of one item type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ages {
    /// Whole days that an item stays in the hot tables after its end.
    pub hot_days: u32,
    /// Days that an item stays in the database after its end.
    pub archive_days: u32,
    /// Years for which its id is known.
    pub known_years: u32,
}

/// Something that still looks at ended items: hot items must be kept at least this long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Floor {
    /// The setting that asks for it.
    pub key: String,
    pub needed: Duration,
}

impl Floor {
    /// Whole days.
    pub fn days(&self) -> u32 {
        let days = self.needed.as_secs().div_ceil(DAY.as_secs());
        u32::try_from(days).unwrap_or(u32::MAX)
    }
}

impl Ages {
    /// Why these ages contradict each other or what needs the items: the name of the field, and a sentence with the
    /// floor.
    pub fn problem(&self, floors: &[Floor]) -> Option<(&'static str, String)> {
        let hot = self.hot_days;
        if !(1..=MOST_DAYS).contains(&hot) {
            return Some((
                "hotDays",
                format!("must be between 1 and {MOST_DAYS}, not {hot}"),
            ));
        }
        // The highest, so that the next try need not meet another.
        let highest = floors.iter().max_by_key(|floor| floor.needed);
        if let Some(floor) = highest.filter(|floor| floor.days() > hot) {
            let (least, key) = (floor.days(), &floor.key);
            let why = format!("must be at least {least}, because of {key}; not {hot}");
            return Some(("hotDays", why));
        }
        let days = self.archive_days;
        if !(hot..=MOST_DAYS).contains(&days) {
            let why = format!("must be between hotDays ({hot}) and {MOST_DAYS}, not {days}");
            return Some(("archiveDays", why));
        }
        let years = self.known_years;
        let least = days.div_ceil(DAYS_A_YEAR).max(1);
        if !(least..=MOST_YEARS).contains(&years) {
            let why = format!(
                "must be between {least} and {MOST_YEARS}, and at least as long as archiveDays; not {years}"
            );
            return Some(("knownYears", why));
        }
        None
    }

    /// Days for which an id is known.
    pub fn known_days(&self) -> u32 {
        self.known_years.saturating_mul(DAYS_A_YEAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_refused_by_the_field_that_is_wrong_with_its_floor() {
        let floors = [Floor {
            key: "rule \"twice\", duplicate_within_secs".into(),
            needed: Duration::from_hours(49),
        }];
        let ages = |hot_days, archive_days, known_years| Ages {
            hot_days,
            archive_days,
            known_years,
        };
        assert_eq!(ages(30, 400, 10).problem(&floors), None);
        assert_eq!(ages(3, 3, 1).problem(&floors), None);
        for (ages, field, floor) in [
            (ages(0, 400, 10), "hotDays", "between 1 and"),
            (
                ages(2, 400, 10),
                "hotDays",
                "at least 3, because of rule \"twice\"",
            ),
            (ages(30, 29, 10), "archiveDays", "hotDays (30)"),
            (ages(30, 400, 1), "knownYears", "between 2 and"),
            (ages(30, 400, 0), "knownYears", "between 2 and"),
            (ages(30, 400, 101), "knownYears", "100"),
        ] {
            let (found, why) = ages.problem(&floors).unwrap();
            assert_eq!(found, field);
            assert!(why.contains(floor), "{why}");
        }
    }

    #[test]
    fn of_several_floors_the_highest_is_named() {
        let floor = |days: u32| Floor {
            key: format!("a rule of {days} days"),
            needed: DAY * days,
        };
        let ages = Ages {
            hot_days: 1,
            archive_days: 400,
            known_years: 10,
        };
        let (_, why) = ages.problem(&[floor(2), floor(10), floor(3)]).unwrap();
        assert_eq!(
            why,
            "must be at least 10, because of a rule of 10 days; not 1"
        );
    }
}
