//! Questions to a bank about one payment.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A status query to a bank.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct BankQuestion {
    /// Id of the payment. It may be unknown to Tollgate.
    #[schema(min_length = 1, max_length = 128, example = "pay_001")]
    pub payment_id: String,
}

/// A status query to a bank, its answer, and the meaning of the answer according to the bank's description.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BankAnswer {
    /// The request as it went out, with credentials masked.
    pub question: String,
    /// HTTP status of the answer; null if no complete answer came.
    #[schema(example = 200)]
    pub status: Option<u16>,
    /// Body of the answer, up to 4,000 characters.
    pub body: String,
    /// Meaning of the answer according to the bank's description.
    #[schema(example = "not known")]
    pub means: String,
    /// Line of the row of the description that applied; null if no row applied.
    #[schema(example = 84)]
    pub line: Option<usize>,
    /// The bank's own reference, if the answer has one.
    pub reference: Option<String>,
    /// The meaning in one sentence.
    pub explanation: String,
}
