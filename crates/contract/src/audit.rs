//! The audit log.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{AnswerSource, ArchivedPart};

/// Entries, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditLog {
    /// The entries of this page.
    pub entries: Vec<AuditEntry>,
    /// Page token: pass it as `after`. Null on the last page.
    pub next: Option<i64>,
    /// Page token: pass it as `before`. Null on the first page.
    pub previous: Option<i64>,
    /// Number of entries in the whole list, counted up to 10,000. Null if counting would read too many of them.
    pub count: Option<u64>,
    /// Whether there are more than `count`.
    pub at_least: bool,
    /// False if the search stopped before the page was full: continue with `next`.
    pub complete: bool,
    /// Set if the search stopped early: entries older than this (with `before`: newer) were not examined.
    pub scanned_to: Option<Timestamp>,
    /// Where the entries of this page come from.
    pub source: AnswerSource,
    /// Entries about archived items are stored with the items and are not in this list. Null if there are none.
    pub archived: Option<ArchivedPart>,
}

/// One entry of the audit log: actor, event, item and reason.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Number of the entry; later entries have higher numbers.
    pub id: i64,
    /// When it happened.
    pub at: Timestamp,
    /// The dispatcher's batch, if the entry is about one.
    #[schema(example = "BATCH-0f3a9c5e7d214b68")]
    pub batch_id: Option<String>,
    /// `TYPE/ID`, if the entry is about one item.
    #[schema(example = "PAYMENT/pay_001")]
    pub item: Option<String>,
    /// The event.
    #[schema(example = "CANCELLED")]
    pub action: String,
    /// Status before the event, if it changed one.
    pub status_before: Option<String>,
    /// Status after the event, if it changed one.
    pub status_after: Option<String>,
    /// Who did it.
    pub actor: String,
    /// Free text. Only the role `operate` sees complete account numbers.
    pub detail: String,
}
