//! What payments and invoices have in common: estimates and timelines.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// Estimate for one item.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Foreseen {
    /// Estimated send time. Null if no estimate is available, and after the send.
    pub estimate: Option<Timestamp>,
    /// Uncertainty of the estimate in milliseconds.
    #[schema(example = 4000)]
    pub tolerance_ms: Option<u64>,
    /// Time of the estimate.
    pub as_of: Option<Timestamp>,
    /// Why no estimate is available. Null if there is one, and after the send.
    pub provisional: Option<Provisional>,
    /// Whether the item meets, or met, its deadline. Null without a deadline or if `provisional` is set.
    pub meets_deadline: Option<bool>,
}

/// Why no estimate is available.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Provisional {
    /// Stable code of the reason.
    #[schema(schema_with = words::untold_code)]
    pub code: String,
    /// The reason as one sentence.
    #[schema(example = "lane \"default\" is paused by ann until someone resumes it: maintenance")]
    pub reason: String,
    /// Time since which there has been no estimate.
    pub since: Timestamp,
}

/// One event of a payment or an invoice.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Event {
    /// Time of the event.
    pub at: Timestamp,
    /// What happened, as one sentence.
    #[schema(example = "sent to the bank")]
    pub what: String,
}
