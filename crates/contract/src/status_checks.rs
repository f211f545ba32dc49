//! Status checks: what gateways say about payments.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// The answer to a status check that has started.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckStatusStart {
    /// Id of the status check.
    #[schema(example = "payment-check-550e8400-e29b-41d4-a716-446655440000")]
    pub workflow_id: String,
    /// Always `STARTED`.
    #[schema(example = "STARTED")]
    pub status: String,
}

/// Progress and result of a status check.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckStatus {
    /// Id of the status check.
    pub workflow_id: String,
    /// Current status.
    #[schema(schema_with = words::check_status)]
    pub status: String,
    /// Progress so far. Null if the status check is unknown.
    pub progress: Option<CheckProgress>,
    /// Null until the status check has completed.
    pub result: Option<CheckResult>,
    /// Why the status check failed as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<String>,
}

/// Progress of a status check.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckProgress {
    /// Number of distinct payments.
    pub total_payments: u32,
    /// Number of gateways found so far.
    pub gateways_identified: u32,
    /// Number of chunks.
    pub chunks_total: u32,
    /// Finished chunks, successful or not.
    pub chunks_completed: u32,
    /// Chunks with at least one failure.
    pub chunks_failed: u32,
    /// Current phase.
    #[schema(schema_with = words::check_phase)]
    pub current_phase: String,
}

/// Result of a status check.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckResult {
    /// Payments by gateway whose calls succeeded. This does not prove that money moved.
    pub successful: BTreeMap<String, Vec<String>>,
    /// Failures by gateway.
    pub failed: BTreeMap<String, Vec<FailedChunk>>,
    /// Payments whose gateway could not be looked up.
    pub gateway_lookup_failed: Vec<String>,
}

/// A failed chunk, or one failed payment of it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedChunk {
    /// Number of the chunk, counted from 0.
    pub chunk_index: u32,
    /// Payments that failed.
    pub payment_ids: Vec<String>,
    /// What went wrong.
    pub error: String,
    /// Service that failed.
    #[schema(schema_with = words::check_stage)]
    pub stage: String,
}

/// Status checks, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckList {
    /// The status checks of this page.
    pub checks: Vec<CheckLine>,
    /// Page token: pass it as `after`. Null on the last page.
    pub next: Option<String>,
    /// Page token: pass it as `before`. Null on the first page.
    pub previous: Option<String>,
    /// Number of status checks in the whole list, counted up to 10,000.
    pub count: u64,
    /// Whether there are more than `count`.
    pub at_least: bool,
}

/// One status check of a list.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckLine {
    /// Id of the status check.
    pub workflow_id: String,
    /// Status as stored. If the workflow ended without a result, only `GET /payments/check-status/{workflowId}` reports
    /// it as failed.
    #[schema(schema_with = words::check_status)]
    pub status: String,
    /// Current phase.
    #[schema(schema_with = words::check_phase)]
    pub current_phase: String,
    /// Number of distinct payments.
    pub total_payments: u32,
    /// Number of gateways found so far.
    pub gateways_identified: u32,
    /// Start.
    pub started_at: Timestamp,
    /// End. Null while it runs.
    pub ended_at: Option<Timestamp>,
}

/// Gateways of a status check, in the order of its payments.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CheckGateways {
    /// Empty while payments are being looked up.
    pub gateways: Vec<CheckGateway>,
    /// Page token: pass it as `after`. Null on the last page.
    pub next: Option<u32>,
}

/// Progress of a status check at one gateway.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckGateway {
    /// Name of the gateway.
    #[schema(example = "stripe")]
    pub gateway: String,
    /// Number of chunks.
    pub chunks_total: u32,
    /// Finished chunks, successful or not.
    pub chunks_completed: u32,
    /// Chunks with at least one failure.
    pub chunks_failed: u32,
}

/// The payments to check.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CheckStatusRequest {
    /// Payment ids. Duplicates are checked once.
    #[schema(min_items = 1, max_items = 10000, example = json!(["payment_001", "payment_002"]))]
    #[serde(rename = "paymentIds")]
    pub payment_ids: Vec<String>,
}
