//! What stays of an item that has ended, once it leaves the hot tables: one line of JSON with all that was known of it.
//!
//! The same line is kept in the archive, written to an exported file and read by a restore, so "equal item by item"
//! is equality of lines. Days are days of the end of items, in UTC.

mod trouble;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::id::{BatchId, Item, ItemId, ItemType, LaneName};
use crate::money::Currency;
use crate::ports::AuditEntry;

pub use trouble::{DayStep, DayTrouble};

/// Of the lines that this release writes. A change that older readers would misread gets another number.
pub const LINE_SCHEMA: u32 = 1;

const DAY_US: i64 = 86_400_000_000;

/// A day on which items ended, in UTC: days since 1970 inside, `YYYY-MM-DD` outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArchiveDay(i64);

impl ArchiveDay {
    /// The day that holds this moment.
    pub fn of(time: Timestamp) -> Self {
        Self(time.as_microsecond().div_euclid(DAY_US))
    }

    /// None for a number of which no clock shows the day.
    pub fn from_number(number: i64) -> Option<Self> {
        let start = number.checked_mul(DAY_US)?;
        let end = start.checked_add(DAY_US)?;
        Timestamp::from_microsecond(end).ok()?;
        Timestamp::from_microsecond(start).ok()?;
        Some(Self(number))
    }

    /// Days since 1970-01-01.
    pub fn number(self) -> i64 {
        self.0
    }

    pub fn start(self) -> Timestamp {
        Timestamp::from_microsecond(self.0 * DAY_US).unwrap_or(Timestamp::MAX)
    }

    /// The first moment that is not in it.
    pub fn end(self) -> Timestamp {
        Timestamp::from_microsecond((self.0 + 1) * DAY_US).unwrap_or(Timestamp::MAX)
    }

    /// So many days earlier.
    #[must_use]
    pub fn before(self, days: u32) -> Self {
        Self(self.0 - i64::from(days))
    }

    /// So many days later.
    #[must_use]
    pub fn after(self, days: u32) -> Self {
        Self(self.0 + i64::from(days))
    }

    /// `YYYY-MM`.
    pub fn month(self) -> String {
        let text = self.to_string();
        text.get(..7).unwrap_or(&text).to_owned()
    }
}

impl fmt::Display for ArchiveDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.start().to_string();
        f.write_str(text.split('T').next().unwrap_or(&text))
    }
}

impl FromStr for ArchiveDay {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a day; write it as YYYY-MM-DD, such as 2026-11-18");
        let date: jiff::civil::Date = text.parse().map_err(|_| wrong())?;
        if date.to_string() != text {
            return Err(wrong());
        }
        let start = date.to_zoned(jiff::tz::TimeZone::UTC);
        let day = Self::of(start.map_err(|_| wrong())?.timestamp());
        Self::from_number(day.0).ok_or_else(wrong)
    }
}

impl TryFrom<String> for ArchiveDay {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ArchiveDay> for String {
    fn from(day: ArchiveDay) -> Self {
        day.to_string()
    }
}

/// Everything that the hot tables knew of an item when it was moved. The order of the fields is the order of the line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArchivedItem {
    /// [`LINE_SCHEMA`].
    pub schema: u32,
    pub item_type: ItemType,
    pub id: ItemId,
    pub status: String,
    /// `DISPATCHED` or `CANCELLED`: nothing else has ended.
    pub queue_status: String,
    pub currency: Currency,
    pub amount_minor: i64,
    pub lane: LaneName,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it ended: its day in the archive.
    pub finished_at: Timestamp,
    pub updated_at: Timestamp,
    pub requested_time: Timestamp,
    pub window_start: Timestamp,
    pub scheduled_time: Timestamp,
    pub scheduled_exec_time: Timestamp,
    pub generation: i64,
    pub deadline: Option<Timestamp>,
    pub hold_after: Option<Timestamp>,
    pub duplicate_key: Option<String>,
    pub owner: Option<String>,
    pub counted: bool,
    pub by_owner: bool,
    pub run: u32,
    pub retry_count: u32,
    pub failures: u32,
    pub fence: i64,
    pub claimed_at: Option<Timestamp>,
    pub dispatched_at: Option<Timestamp>,
    pub dispatch_batch_id: Option<String>,
    pub exec_flow: Option<String>,
    pub last_error: Option<String>,
    pub held_by: Option<String>,
    pub passed_rules: Option<String>,
    /// None once it was erased.
    pub content_hash: Option<String>,
    /// The JSON that it was taken in with, as text; none if it was lost or erased.
    pub body: Option<String>,
    pub init_flow: String,
    /// The import that it came in.
    pub bulk_id: Option<String>,
    /// When what it says of people was erased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub erased_at: Option<Timestamp>,
    /// Oldest first.
    pub attempts: Vec<ArchivedAttempt>,
    /// Oldest first.
    pub audit: Vec<ArchivedAudit>,
}

impl ArchivedItem {
    pub fn item(&self) -> Item {
        Item::new(&self.item_type, &self.id)
    }

    /// Its audit trail, as the log would show it, oldest first.
    pub fn audit_entries(&self) -> Vec<AuditEntry> {
        let entry = |entry: &ArchivedAudit| AuditEntry {
            id: entry.audit_id,
            at: entry.at,
            batch: entry.batch_id.as_deref().map(BatchId::new),
            item: Some(self.item()),
            action: entry.action.clone(),
            status_before: entry.status_before.clone(),
            status_after: entry.status_after.clone(),
            actor: entry.actor.clone(),
            detail: entry.detail.clone(),
        };
        self.audit.iter().map(entry).collect()
    }

    /// The day that it lies in.
    pub fn day(&self) -> ArchiveDay {
        ArchiveDay::of(self.finished_at)
    }
}

/// A send or a question, with its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArchivedAttempt {
    pub attempt_id: i64,
    pub run: u32,
    pub kind: String,
    pub state: String,
    /// Empty if it had no turn.
    pub lane: LaneName,
    pub idempotency_key: String,
    pub turn_at: Timestamp,
    pub era: i64,
    pub settled_at: Option<Timestamp>,
    pub detail: String,
    pub reopened: bool,
    pub watch_id: Option<i64>,
}

/// An entry of the audit log about the item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArchivedAudit {
    pub audit_id: i64,
    pub at: Timestamp,
    pub batch_id: Option<String>,
    pub action: String,
    pub status_before: Option<String>,
    pub status_after: Option<String>,
    pub actor: String,
    pub detail: String,
}

/// How far a day of a type is. A day only goes forward, but for items that are moved into it late, which open it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DayState {
    /// Items are still moved into it.
    Open,
    /// Everything that ended on it is here: it can be exported.
    Closed,
    /// It is in a file, too.
    Exported,
    /// It is in a file only.
    Dropped,
}

impl DayState {
    pub const ALL: [Self; 4] = [Self::Open, Self::Closed, Self::Exported, Self::Dropped];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "OPEN",
            Self::Closed => "CLOSED",
            Self::Exported => "EXPORTED",
            Self::Dropped => "DROPPED",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// What one day of one type holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayView {
    pub item_type: ItemType,
    pub day: ArchiveDay,
    pub state: DayState,
    /// What ended on it, by status and currency; the same whether it is in the database or in a file.
    pub sums: Vec<DaySum>,
    /// Where it was exported to.
    pub export: Option<DayExport>,
    pub dropped_at: Option<Timestamp>,
    /// When it came back from its file; none once it was dropped again.
    pub restored_at: Option<Timestamp>,
}

impl DayView {
    pub fn count(&self) -> u64 {
        self.sums.iter().map(|sum| sum.count).sum()
    }
}

/// How many items of a day ended with this status, and their amounts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DaySum {
    pub status: String,
    pub currency: String,
    pub count: u64,
    pub amount_minor: i64,
}

/// A file that holds a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DayExport {
    pub file: String,
    /// SHA-256 of the file, in hex.
    pub digest: String,
    pub at: Timestamp,
}

/// Statuses that items end with, as numbers of one byte. A number keeps its meaning for as long as ids are known: words
/// are added at the end.
const END_STATUSES: [&str; 6] = ["", "PROCESSING", "REJECTED", "CANCELLED", "FAILED", "PAID"];

/// 0 for a word that has no number.
pub fn status_code(status: &str) -> i64 {
    let found = END_STATUSES.iter().position(|word| *word == status);
    found.and_then(|code| i64::try_from(code).ok()).unwrap_or(0)
}

/// Empty for a number that has no word.
pub fn status_of(code: i64) -> &'static str {
    let word = usize::try_from(code)
        .ok()
        .and_then(|code| END_STATUSES.get(code));
    word.copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_the_utc_day_of_a_moment_and_reads_as_its_date() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        for (moment, day) in [
            ("2026-11-18T00:00:00Z", "2026-11-18"),
            ("2026-11-18T23:59:59.999999Z", "2026-11-18"),
            ("1969-12-31T23:59:59Z", "1969-12-31"),
            ("2024-02-29T12:00:00Z", "2024-02-29"),
        ] {
            let found = ArchiveDay::of(at(moment));
            assert_eq!(found.to_string(), day);
            assert_eq!(day.parse(), Ok(found));
            assert!(found.start() <= at(moment) && at(moment) < found.end());
        }
        assert_eq!(
            ArchiveDay::of(at("2026-11-18T05:00:00Z")).month(),
            "2026-11"
        );
    }

    #[test]
    fn what_is_not_a_day_is_refused_with_the_form_of_one() {
        for wrong in [
            "",
            "2026-13-01",
            "2026-02-30",
            "20261118",
            "2026-11-18T00:00:00Z",
            "today",
        ] {
            let why = wrong.parse::<ArchiveDay>().unwrap_err();
            assert!(why.contains("YYYY-MM-DD"), "{why}");
        }
    }
}
