//! Control totals.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::AnswerSource;
use crate::words;

/// All payments and invoices accepted on that day, each counted in exactly one status.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Start of the day.
    pub from: Timestamp,
    /// End of the day.
    pub to: Timestamp,
    /// Time of the computation. Totals that take long are cached for some seconds.
    pub as_of: Timestamp,
    /// Payments by status and currency.
    pub payments: Vec<Bucket>,
    /// All payments of the day, by currency: the sums of `payments`.
    pub payment_sums: Vec<TotalSum>,
    /// Invoices by status and currency.
    pub invoices: Vec<Bucket>,
    /// All invoices of the day, by currency: the sums of `invoices`.
    pub invoice_sums: Vec<TotalSum>,
    /// Where the totals come from. Archiving and dropping a day do not change its totals.
    pub source: AnswerSource,
}

/// Sum of all statuses in a currency.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct TotalSum {
    /// ISO 4217 code.
    #[schema(example = "USD")]
    pub currency: String,
    /// Number of items.
    pub count: u64,
    /// Total amount as a decimal.
    #[schema(example = "125.50")]
    pub amount: String,
}

/// Items in one status and currency.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Bucket {
    /// The status; `HELD` for held items that are not in doubt.
    #[schema(schema_with = words::total_status)]
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
