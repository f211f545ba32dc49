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

/// Fields that are not given keep their value.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"enabled": false, "reason": "the bank is down"}))]
pub struct ItemTypeChange {
    /// Kill switch: while false, no item is dispatched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Maximum number of items per claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10_000)]
    pub batch_size: Option<u32>,
    /// At most `batchSize`. Applies from the next claim: running flows keep their items.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 500)]
    pub items_per_flow: Option<u32>,
    /// Maximum time between two full dispatch cycles.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 3600)]
    pub dispatch_interval_secs: Option<u32>,
    /// Random start delay of later runs, at most this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 3_600_000)]
    pub jitter_window_ms: Option<u32>,
    /// How long before its due time an item may be claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 60)]
    pub pre_start_buffer_mins: Option<Decimal>,
    /// Number of failed starts after which an item is DEAD.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub max_dispatch_retries: Option<u32>,
    /// Age after which a claim may be taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, maximum = 1440)]
    pub stale_claim_threshold_mins: Option<Decimal>,
    /// Temporal only. A process must already poll this task queue
    /// (`engine.temporal.exec_task_queues`). Other processes follow within ten seconds. Flows that
    /// have started stay on their task queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200)]
    pub exec_task_queue: Option<String>,
    /// Reason, recorded in the audit log.
    #[schema(min_length = 1, max_length = 500)]
    pub reason: String,
}
