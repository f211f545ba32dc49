//! The archive: where an answer comes from, the days of the archive, their items, and how the archive is.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::AuditEntry;
use crate::words;

/// Where an answer comes from.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AnswerSource {
    /// `hot`: items that have not ended, or ended recently. `archive`: items that ended `hot_days` ago or
    /// earlier.
    #[schema(schema_with = words::answer_from)]
    pub from: String,
    /// Whether the day was only in a file and has been restored into the database.
    pub restored: bool,
}

/// Archived items that match the list but are not in it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedPart {
    /// Approximate UTC day on which the first of them ended.
    #[schema(example = "2026-01-02")]
    pub first_day: String,
    /// Approximate UTC day on which the last of them ended.
    #[schema(example = "2026-10-16")]
    pub last_day: String,
    /// Human-readable sentence.
    pub what: String,
}

/// Days of the archive, oldest first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedDayList {
    /// The days of this page, one entry per item type.
    pub days: Vec<ArchivedDay>,
    /// Pass it as `after`. Null on the last page.
    #[schema(example = "2026-10-16")]
    pub next: Option<String>,
}

/// The items of one type that ended on one day.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedDay {
    /// UTC day on which the items ended.
    #[schema(example = "2026-10-16")]
    pub day: String,
    /// Type of the items.
    #[schema(example = "PAYMENT")]
    pub item_type: String,
    /// State of the day.
    #[schema(schema_with = words::archive_state)]
    pub state: String,
    /// Number of items.
    pub count: u64,
    /// Items by status and currency.
    pub totals: Vec<ArchivedTotal>,
    /// Name of the exported file, in the folder `retention.export_dir`.
    #[schema(example = "PAYMENT-2026-10-16-3f9a1c0e5b7d.ndjson.gz")]
    pub file: Option<String>,
    /// SHA-256 of the exported file, in hex.
    pub sha256: Option<String>,
    /// When it was exported.
    pub exported_at: Option<Timestamp>,
    /// When it was dropped from the database.
    pub dropped_at: Option<Timestamp>,
    /// When it was restored from its file. Null once it is dropped again.
    pub restored_at: Option<Timestamp>,
    /// What is wrong with the day, since when, and what to do. Null if nothing is wrong.
    #[schema(
        example = "2026-11-18T00:10:00Z: PAYMENT of 2026-10-16 could not be exported: /archive/.lock cannot be written: No space left on device; free space in retention.export_dir and run it again; nothing was dropped"
    )]
    pub trouble: Option<String>,
}

/// Items of a day that ended with this status, in this currency.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedTotal {
    /// The last status.
    #[schema(example = "PROCESSING")]
    pub status: String,
    /// ISO 4217 code.
    #[schema(example = "USD")]
    pub currency: String,
    /// Number of items.
    pub count: u64,
    /// Total amount as a decimal.
    #[schema(example = "125.50")]
    pub amount: String,
}

/// Items of one day of the archive, in the order of their ids.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedItemList {
    /// UTC day on which the items ended.
    #[schema(example = "2026-10-16")]
    pub day: String,
    /// Type of the items.
    #[schema(example = "PAYMENT")]
    pub item_type: String,
    /// The items of this page.
    pub items: Vec<ArchivedItemLine>,
    /// Page token: pass it as `after`. Null on the last page.
    pub next: Option<String>,
    /// False if the search stopped before the page was full: continue with `next`.
    pub complete: bool,
    /// Where the items come from.
    pub source: AnswerSource,
}

/// An item that ended on the day.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedItemLine {
    /// Id of the item.
    #[schema(example = "pay_001")]
    pub id: String,
    /// The last status.
    #[schema(example = "PROCESSING")]
    pub status: String,
    /// Amount as a decimal.
    #[schema(example = "125.50")]
    pub amount: String,
    /// ISO 4217 code.
    #[schema(example = "USD")]
    pub currency: String,
    /// Name of the lane.
    #[schema(example = "default")]
    pub lane: String,
    /// Time at which it was accepted.
    pub created_at: Timestamp,
    /// Time at which it ended.
    pub finished_at: Timestamp,
    /// Deadline, or null.
    pub deadline: Option<Timestamp>,
    /// Number of requests to the bank or provider.
    pub attempts: usize,
    /// Whether personal data was erased from the item.
    pub erased: bool,
}

/// Audit entries about items of one day of the archive.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedAudit {
    /// UTC day on which the items ended.
    #[schema(example = "2026-10-16")]
    pub day: String,
    /// Type of the items.
    #[schema(example = "PAYMENT")]
    pub item_type: String,
    /// Item by item in the order of their ids; the oldest entry of an item first.
    pub entries: Vec<AuditEntry>,
    /// Page token: pass it as `after`. Null on the last page.
    pub next: Option<String>,
    /// Where the entries come from.
    pub source: AnswerSource,
}

/// Size and state of the archive.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveStatus {
    /// Time of the answer.
    pub as_of: Timestamp,
    /// Size of the store, including the archive.
    pub store_bytes: u64,
    /// Size of the archive in the store.
    pub archive_bytes: u64,
    /// Whether closed days are exported: `retention.export_dir` is set.
    pub exports: bool,
    /// The archive by item type.
    pub types: Vec<ArchivedType>,
    /// What takes up space in the store, largest first: tables with their indexes on PostgreSQL, files on SQLite. At
    /// most 20.
    pub parts: Vec<StorePart>,
    /// Problems, oldest day first. Empty if there are none.
    pub troubles: Vec<ArchiveTrouble>,
    /// One sentence for each closed day that has had no file for more than a day. Empty without `retention.export_dir`.
    pub overdue: Vec<String>,
}

/// The archive of one item type.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedType {
    /// Type of the items.
    #[schema(example = "PAYMENT")]
    pub item_type: String,
    /// Whole days that an item stays in the hot tables after its end.
    pub hot_days: u32,
    /// Days that an item stays in the database after its end.
    pub archive_days: u32,
    /// Time at which the oldest item in the hot tables was accepted. Items that have not ended stay there however old they are.
    pub oldest_hot: Option<Timestamp>,
    /// Number of days in the archive.
    pub days: u64,
    /// Number of these days that are in files only.
    pub days_dropped: u64,
    /// Archive lag: closed days that are not exported yet.
    pub days_to_export: u64,
    /// The oldest of these days.
    #[schema(example = "2026-10-16")]
    pub oldest_to_export: Option<String>,
    /// On PostgreSQL, the number of coming days that have a partition. Null on SQLite.
    pub days_ready: Option<u32>,
}

/// A table or a file of the store.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StorePart {
    /// Name of the table or the file.
    #[schema(example = "item_queue")]
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// A day of the archive with a problem.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveTrouble {
    /// UTC day on which the items ended.
    #[schema(example = "2026-10-16")]
    pub day: String,
    /// Type of the items.
    #[schema(example = "PAYMENT")]
    pub item_type: String,
    /// What failed.
    #[schema(schema_with = words::archive_step)]
    pub step: String,
    /// Time of the first failure.
    pub since: Timestamp,
    /// One sentence with the day, the reason and what to do.
    pub what: String,
}

/// The exported files of a day, all of them intact.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifiedDay {
    /// UTC day on which the items ended.
    #[schema(example = "2026-10-16")]
    pub day: String,
    /// The files of the day, one per item type.
    pub files: Vec<VerifiedExport>,
}

/// An exported file that has been read completely and is intact.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifiedExport {
    /// Type of the items.
    #[schema(example = "PAYMENT")]
    pub item_type: String,
    /// Name of the file, in the folder `retention.export_dir`.
    #[schema(example = "PAYMENT-2026-10-16-3f9a1c0e5b7d.ndjson.gz")]
    pub file: String,
    /// SHA-256 of the file, in hex.
    pub sha256: String,
    /// Number of lines: one per item.
    pub lines: u64,
    /// Whether every line was compared with the database. False if the day is in files only.
    pub compared_with_database: bool,
}

/// Result of one archive round over all days.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveRound {
    /// Number of items moved from the hot tables to the archive.
    pub moved: u64,
    /// Number of days exported.
    pub exported: u64,
    /// Number of days dropped from the database.
    pub dropped: u64,
    /// One sentence for each day that could not be exported, verified or dropped.
    pub troubles: Vec<String>,
    /// One sentence for each day that was skipped: another export, verification or restore was running, or items were moved into
    /// the day meanwhile. A later round continues with it.
    pub skipped: Vec<String>,
}
