//! Imports: files of payments, and their rejected lines.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Provisional;
use crate::words;

/// The answer to an accepted file.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bulk {
    /// Id of the import.
    pub batch_id: String,
    /// Only if the same file was sent before: the time at which it was imported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported_at: Option<Timestamp>,
}

/// Imports, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkList {
    /// The imports of this page.
    pub batches: Vec<BulkLine>,
    /// Page token: pass it as `after`. Null on the last page.
    pub next: Option<String>,
    /// Page token: pass it as `before`. Null on the first page.
    pub previous: Option<String>,
    /// Number of imports in the whole list, counted up to 10,000.
    pub count: u64,
    /// Whether there are more than `count`.
    pub at_least: bool,
}

/// One import of a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkLine {
    /// Id of the import.
    pub batch_id: String,
    /// Name of the file, if its sender gave one.
    pub file_name: Option<String>,
    /// Who imported it.
    pub actor: Option<String>,
    /// State of the import.
    #[schema(schema_with = words::bulk_state)]
    pub state: String,
    /// Number of non-blank lines. During the upload: so far.
    pub lines: u64,
    /// Number of accepted lines.
    pub accepted: u64,
    /// Number of lines whose payment was known already.
    pub duplicate: u64,
    /// Number of rejected lines.
    pub rejected: u64,
    /// Start of the upload.
    pub opened_at: Timestamp,
    /// Time at which the last line was decided, or null.
    pub ended_at: Option<Timestamp>,
}

/// An import: its lines, slots, amounts and deadlines.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkState {
    /// Id of the import.
    pub batch_id: String,
    /// `PAYMENT`, or `INVOICE` for a feed of invoices.
    #[schema(example = "PAYMENT")]
    pub item_type: String,
    /// Name of the file, if its sender gave one.
    pub file_name: Option<String>,
    /// Who imported it.
    pub actor: Option<String>,
    /// State of the import.
    #[schema(schema_with = words::bulk_state)]
    pub state: String,
    /// Number of non-blank lines. During the upload: so far.
    pub lines: u64,
    /// Number of accepted lines.
    pub accepted: u64,
    /// Number of lines whose payment was known already.
    pub duplicate: u64,
    /// Number of rejected lines.
    pub rejected: u64,
    /// End of the upload.
    pub started_at: Option<Timestamp>,
    /// Time at which the last line was decided, or null.
    pub ended_at: Option<Timestamp>,
    /// Whether competing payments got their slots in file order. False if a chunk of the file kept
    /// failing for 30 seconds and later chunks overtook it.
    pub order_kept: bool,
    /// Slots of the accepted payments as assigned at intake. A replan may have moved them since.
    pub first_slot: Option<Timestamp>,
    /// The latest of these slots.
    pub last_slot: Option<Timestamp>,
    /// Accepted amounts by currency.
    pub amounts: Vec<BulkAmount>,
    /// The accepted payments by lane.
    pub lanes: Vec<BulkLane>,
    /// Null if none of the accepted payments has a deadline.
    pub deadline: Option<BulkDeadline>,
    /// Why some lines have no slot yet, and when Tollgate tries again. Null if nothing is blocked.
    pub why_not_running: Option<String>,
    /// What has happened to its payments since the import. Only if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub since: Option<BulkSince>,
}

/// Accepted payments in one currency.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BulkAmount {
    /// ISO 4217 code.
    pub currency: String,
    /// Number of payments.
    pub count: u64,
    /// Total amount as a decimal.
    pub amount: String,
}

/// Accepted payments on one lane.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkLane {
    /// Name of the lane.
    pub lane: String,
    /// Number of accepted payments.
    pub accepted: u64,
    /// Earliest slot.
    pub first_slot: Timestamp,
    /// Latest slot.
    pub last_slot: Timestamp,
    /// Number of payments that meet their deadline.
    pub meets: u64,
    /// Number of payments that miss their deadline.
    pub misses: u64,
    /// The limit that would meet every deadline on the lane. Only if requested and if such a limit exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enough: Option<BulkEnough>,
}

/// The lowest limit that would meet every deadline, with its plan.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkEnough {
    /// Hard limit of sends in any second.
    pub max_per_second: u32,
    /// Plan: maximum number of items per window.
    pub max_per_window: u32,
}

/// How the deadlines of an import are met.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkDeadline {
    /// Number of payments that meet their deadline.
    pub meets: u64,
    /// Number of payments that miss their deadline.
    pub misses: u64,
    /// When `meets` and `misses` were counted: always `intake`, when each payment got its slot.
    pub as_of: String,
    /// The payments that have not been sent yet, as of now.
    pub waiting: BulkWaiting,
    /// The forecast as one sentence.
    pub verdict: String,
    /// Why no estimate is available for the waiting payments; otherwise null.
    pub provisional: Option<Provisional>,
}

/// Payments of an import that have not been sent yet.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkWaiting {
    /// Payments that will miss their deadline.
    pub late: u64,
    /// Payments with a deadline for which no estimate is available.
    pub untold: u64,
    /// Time of the estimate.
    pub as_of: Timestamp,
}

/// Payments of an import, counted by their current status.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkSince {
    /// Each payment is counted in exactly one status; held payments that are not in doubt are `HELD`.
    pub payments: Vec<BulkBucket>,
    /// Number of payments counted.
    pub count: u64,
    /// Whether there may be more: at most 100,000 are counted.
    pub at_least: bool,
    /// The first import of the same file before this one.
    pub same_file: Option<BulkSameFile>,
}

/// Payments in one status and currency.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct BulkBucket {
    /// Current status.
    #[schema(schema_with = words::total_status)]
    pub status: String,
    /// ISO 4217 code.
    #[schema(example = "USD")]
    pub currency: String,
    /// Number of payments.
    pub count: u64,
    /// Total amount as a decimal.
    #[schema(example = "125.50")]
    pub amount: String,
}

/// An import of the same file.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkSameFile {
    /// Id of the import.
    pub batch_id: String,
    /// When it was imported.
    pub imported_at: Timestamp,
}

/// One page of rejected lines.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkErrors {
    /// The rejected lines of this page.
    pub errors: Vec<BulkLineError>,
    /// Page token: pass it as `after`. Null on the last page.
    pub next: Option<u64>,
}

/// A rejected line.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BulkLineError {
    /// Number of the line, counted from 1.
    pub line: u64,
    /// Id of the payment, if it could be read.
    pub payment_id: Option<String>,
    /// Errors by field name.
    pub details: BTreeMap<String, String>,
}
