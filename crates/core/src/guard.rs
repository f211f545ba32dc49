//! Guards: rules that need to know what was taken in before. They are judged inside the
//! transaction that writes an item, so that they are exact however many callers there are.
//! Pure: a store brings what it has counted, and asks here what follows from it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;

use crate::ports::NewItem;
use crate::{SignedDuration, Timestamp};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The rule's name and message: what a refusal says.
    pub rule: String,
    pub message: String,
    pub limit: Limit,
    /// Records with these statuses are as if they had never been.
    pub uncounted: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    /// No other item with this key was taken in within this time.
    NoDuplicate { key: String, within_secs: u32 },
    /// The owner's amounts in the item's currency that were taken in on one day, this item's among
    /// them, are at most this much. The zone is one of the IANA's, checked by whoever wrote the rule.
    DailyTotal { zone: String, most_minor: i64 },
}

/// When was the last item with this key taken in?
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DuplicateQuestion {
    pub key: String,
    pub uncounted: Vec<String>,
}

/// How much was taken in of an owner and currency, from one moment to another?
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TotalQuestion {
    pub owner: String,
    pub currency: String,
    pub from: Timestamp,
    pub to: Timestamp,
    pub uncounted: Vec<String>,
}

impl Guard {
    /// Two transactions that hold the same name must not judge at the same time.
    pub fn counted_under(&self, item: &NewItem) -> String {
        match &self.limit {
            Limit::NoDuplicate { key, .. } => format!("twin/{key}"),
            Limit::DailyTotal { .. } => {
                let record = &item.record;
                format!("total/{}/{}", record.money.currency, record.owner)
            }
        }
    }

    fn question(&self, item: &NewItem, now: Timestamp) -> Question {
        let uncounted = self.uncounted.clone();
        match &self.limit {
            Limit::NoDuplicate { key, .. } => Question::Duplicate(DuplicateQuestion {
                key: key.clone(),
                uncounted,
            }),
            Limit::DailyTotal { zone, .. } => {
                let (from, to) = day_of(zone, now);
                Question::Total(TotalQuestion {
                    owner: item.record.owner.clone(),
                    currency: item.record.money.currency.code().to_owned(),
                    from,
                    to,
                    uncounted,
                })
            }
        }
    }
}

enum Question {
    Duplicate(DuplicateQuestion),
    Total(TotalQuestion),
}

/// The day of a moment: from its first to the next day's first moment, whatever the clocks do.
fn day_of(zone: &str, now: Timestamp) -> (Timestamp, Timestamp) {
    let zone = TimeZone::get(zone).unwrap_or(TimeZone::UTC);
    let local = now.to_zoned(zone);
    let from = local.start_of_day();
    let to = local.tomorrow().and_then(|next| next.start_of_day());
    (
        from.map_or(now, |day| day.timestamp()),
        to.map_or(Timestamp::MAX, |day| day.timestamp()),
    )
}

/// Totals are kept by the quarter of an hour: every zone's day begins with one, and has about a
/// hundred of them.
pub const QUARTER: SignedDuration = SignedDuration::from_mins(15);

/// The quarter that a moment lies in.
pub fn quarter_of(now: Timestamp) -> Timestamp {
    let secs = QUARTER.as_secs();
    let begun = now.as_second().div_euclid(secs) * secs;
    Timestamp::from_second(begun).unwrap_or(now)
}

/// What counts, for the items of one batch, while they are judged one after the other.
#[derive(Debug)]
pub struct Tally {
    now: Timestamp,
    duplicates: BTreeMap<DuplicateQuestion, Option<Timestamp>>,
    totals: BTreeMap<TotalQuestion, i64>,
}

impl Tally {
    /// With every question that these items raise, and nothing counted yet.
    pub fn new<'i>(items: impl IntoIterator<Item = &'i NewItem>, now: Timestamp) -> Self {
        let mut tally = Self {
            now,
            duplicates: BTreeMap::new(),
            totals: BTreeMap::new(),
        };
        for item in items {
            for guard in &item.guards {
                match guard.question(item, now) {
                    Question::Duplicate(asked) => drop(tally.duplicates.insert(asked, None)),
                    Question::Total(asked) => drop(tally.totals.insert(asked, 0)),
                }
            }
        }
        tally
    }

    pub fn duplicates_mut(
        &mut self,
    ) -> impl Iterator<Item = (&DuplicateQuestion, &mut Option<Timestamp>)> {
        self.duplicates.iter_mut()
    }

    /// In minor units.
    pub fn totals_mut(&mut self) -> impl Iterator<Item = (&TotalQuestion, &mut i64)> {
        self.totals.iter_mut()
    }

    /// The first guard that is against an item.
    pub fn refusal<'i>(&self, item: &'i NewItem) -> Option<&'i Guard> {
        let against = |guard: &&Guard| self.is_against(guard, item);
        item.guards.iter().find(against)
    }

    fn is_against(&self, guard: &Guard, item: &NewItem) -> bool {
        match (&guard.limit, guard.question(item, self.now)) {
            (Limit::NoDuplicate { within_secs, .. }, Question::Duplicate(asked)) => {
                let since = self.now - SignedDuration::from_secs(i64::from(*within_secs));
                let last = self.duplicates.get(&asked).copied().flatten();
                last.is_some_and(|last| last > since)
            }
            (Limit::DailyTotal { most_minor, .. }, Question::Total(asked)) => {
                let total = self.totals.get(&asked).copied().unwrap_or(0);
                // More than all the money there is, is also more than the limit.
                let with_this = total.checked_add(item.record.money.minor);
                with_this.is_none_or(|with_this| with_this > *most_minor)
            }
            (Limit::NoDuplicate { .. }, Question::Total(_))
            | (Limit::DailyTotal { .. }, Question::Duplicate(_)) => true,
        }
    }

    /// An item was taken in, and counts for those after it.
    pub fn count(&mut self, item: &NewItem) {
        // Two rules about one day ask one question, and the money counts once.
        let mut totals = BTreeSet::new();
        for guard in &item.guards {
            match guard.question(item, self.now) {
                Question::Duplicate(asked) => drop(self.duplicates.insert(asked, Some(self.now))),
                Question::Total(asked) => drop(totals.insert(asked)),
            }
        }
        for asked in totals {
            let total = self.totals.entry(asked).or_insert(0);
            *total = total.saturating_add(item.record.money.minor);
        }
    }
}

#[cfg(test)]
mod tests;
