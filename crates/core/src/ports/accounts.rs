//! Accounts: control totals and the audit trail.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::StoreResult;
use crate::Timestamp;
use crate::id::{Item, ItemType};
use crate::item::QueueStatus;

#[async_trait]
pub trait Accounts: Send + Sync {
    /// Every item of a type accepted in `[from, to)`, in exactly one bucket: by status and currency.
    async fn totals(
        &self,
        item_type: &ItemType,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<Vec<Total>>;

    /// How many items of a type the queue holds in each state that is not an end: READY, CLAIMED,
    /// DISPATCHED and not finished, HELD, DEAD; those that hold none too.
    async fn depths(&self, item_type: &ItemType) -> StoreResult<Vec<(QueueStatus, u64)>>;

    async fn write_audit(&self, entry: NewAudit) -> StoreResult<()>;

    /// The newest entries, of one item or of all.
    async fn audit(&self, item: Option<&Item>, limit: u32) -> StoreResult<Vec<AuditEntry>>;
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Total {
    pub status: String,
    pub currency: String,
    pub count: u64,
    pub amount_minor: i64,
}

#[derive(Debug, Clone, Default)]
pub struct NewAudit {
    pub item: Option<Item>,
    pub action: String,
    pub actor: String,
    pub detail: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub at: Timestamp,
    pub item: Option<Item>,
    pub action: String,
    pub status_before: Option<String>,
    pub status_after: Option<String>,
    pub actor: String,
    pub detail: String,
}
