//! Items that were given up.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// Dead letters, newest due time first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterList {
    /// The dead letters of this page.
    pub dead_letters: Vec<DeadLetter>,
    /// Page token: pass it as `after`. Null on the last page.
    pub next: Option<String>,
    /// Page token: pass it as `before`. Null on the first page.
    pub previous: Option<String>,
    /// Number of dead letters of this type in the whole list, counted up to 10,000.
    pub count: u64,
    /// Whether there are more than `count`.
    pub at_least: bool,
}

/// A dead letter: the item and the reason.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// Item type.
    #[schema(example = "PAYMENT")]
    pub item_type: String,
    /// Id of the item.
    #[schema(example = "pay_001")]
    pub id: String,
    /// Status of the payment, invoice or notification.
    pub status: String,
    /// Amount as a decimal.
    pub amount: String,
    /// ISO 4217 code.
    pub currency: String,
    /// Name of the lane.
    pub lane: String,
    /// Current run, counted from 1.
    pub run: u32,
    /// Number of failed starts.
    pub retry_count: u32,
    /// The last error.
    pub last_error: Option<String>,
    /// Due time.
    pub due: Timestamp,
}

/// A replayed item.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replayed {
    /// Item type.
    #[schema(example = "PAYMENT")]
    pub item_type: String,
    /// Id of the item.
    #[schema(example = "pay_001")]
    pub id: String,
    /// Status of the payment, invoice or notification.
    pub status: String,
    /// Place in the queue.
    #[schema(schema_with = words::queue_status)]
    pub queue_status: String,
    /// Current run, counted from 1.
    pub run: u32,
}
