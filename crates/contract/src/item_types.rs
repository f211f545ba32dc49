//! Dispatch settings of item types.

use jiff::Timestamp;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Dispatch settings of an item type.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ItemType {
    /// Item type.
    #[schema(example = "PAYMENT")]
    pub item_type: String,
    /// Kill switch: while false, no item is dispatched and items stay READY.
    pub enabled: bool,
    /// Maximum number of items per claim.
    pub batch_size: u32,
    /// Maximum number of items per flow. With 1, each item has its own flow.
    pub items_per_flow: u32,
    /// Maximum time between two full dispatch cycles. Items due within a second do not wait for a cycle.
    pub dispatch_interval_secs: u32,
    /// Random start delay of later runs, at most this long.
    pub jitter_window_ms: u32,
    /// How long before its due time an item may be claimed.
    #[schema(value_type = f64)]
    pub pre_start_buffer_mins: Decimal,
    /// Number of failed starts after which an item is DEAD.
    pub max_dispatch_retries: u32,
    /// Age after which a claim may be taken over.
    #[schema(value_type = f64)]
    pub stale_claim_threshold_mins: Decimal,
    /// Flow type that executes an item.
    pub exec_workflow_type: String,
    /// Temporal task queue of that flow. The embedded engine ignores it.
    pub exec_task_queue: String,
    /// Number of the version.
    pub version: i64,
    /// Current version: effective time, actor and reason.
    pub since: Timestamp,
    /// Who changed it.
    pub actor: String,
    /// Reason that the actor gave.
    pub reason: String,
}
