//! Items whose outcome is unknown.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

use crate::{Invoice, Payment};

/// Items in doubt, and their total amounts.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InDoubtList {
    /// Amounts in doubt by currency.
    pub at_risk: Vec<AtRisk>,
    /// Number of items of this type in doubt.
    pub count: u64,
    /// The items of this page.
    pub items: Vec<InDoubt>,
    /// Page token: pass it as `after`. Null on the last page.
    pub next: Option<String>,
    /// Page token: pass it as `before`. Null on the first page and with `order=id`.
    pub previous: Option<String>,
}

/// Amount in doubt in one currency.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct AtRisk {
    /// ISO 4217 code.
    pub currency: String,
    /// Number of items.
    pub count: u64,
    /// Total amount as a decimal.
    pub amount: String,
    /// Time at which the oldest item in doubt was sent.
    pub since: Timestamp,
}

/// An item in doubt: its sends, the answers, and the next step.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InDoubt {
    /// Item type.
    #[schema(example = "PAYMENT")]
    pub item_type: String,
    /// Id of the item.
    #[schema(example = "pay_001")]
    pub id: String,
    /// Amount as a decimal.
    pub amount: String,
    /// ISO 4217 code.
    pub currency: String,
    /// Name of the lane.
    pub lane: String,
    /// Time of the first send whose outcome is unknown.
    pub first_sent: Option<Timestamp>,
    /// Time of the last send whose outcome is unknown.
    pub last_sent: Option<Timestamp>,
    /// Number of sends so far. Pass it as `sends` when you resolve the item.
    pub sends: u32,
    /// Number of queries so far.
    pub questions: usize,
    /// The last answer, if there was one.
    pub last_heard: Option<String>,
    /// Estimated time of the next query or resend.
    pub next_at: Timestamp,
}

/// An item that is or was in doubt, in its current state.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Doubtful {
    /// A payment.
    Payment(Box<Payment>),
    /// An invoice.
    Invoice(Box<Invoice>),
}

/// A decision that a second person must confirm.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Proposed {
    /// Always `PROPOSED`.
    #[schema(example = "PROPOSED")]
    pub status: String,
    /// What is still needed.
    pub needs: String,
}

/// The resolved item, or the proposal that a second person must confirm.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ResolutionResult {
    /// The item, which is no longer in doubt.
    Resolved(Doubtful),
    /// The proposal.
    Proposed(Proposed),
}

/// The queries that were made.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InDoubtQuestions {
    /// Number of payments to ask about.
    pub payments: usize,
    /// Number of payments about which a bank was asked. Null with `in_doubt.ask = "services"`.
    pub asked: Option<usize>,
    /// Number of answers that contain information about the payment.
    pub answered: Option<usize>,
    /// Number of payments that their bank has executed. They stop being in doubt within seconds.
    pub resolved: Option<usize>,
    /// Payments that were not queried within 20 seconds. Pass them as `paymentIds` to continue.
    pub left: Vec<String>,
    /// Started status checks. See `GET /payments/check-status/{workflowId}` for their progress.
    pub workflow_ids: Vec<String>,
}

/// Payments to check: the listed ones, or those last sent on a given day.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct InDoubtQuestion {
    /// Ids of the payments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_ids: Option<Vec<String>>,
    /// Default: today, if `paymentIds` is not given either.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "2026-11-16")]
    pub date: Option<String>,
    /// IANA time zone of the day. Default: UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "Europe/Berlin")]
    pub zone: Option<String>,
}

/// A person's decision about an item in doubt.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Resolution {
    /// `done`: the bank executed it. `not_done`: it did not, and Tollgate sends it again. `failed`:
    /// give it up.
    #[schema(schema_with = words::resolved)]
    pub outcome: String,
    /// Number of sends when you looked at the item. The request is refused if it was sent again since.
    pub sends: u32,
    /// Evidence for the decision, recorded in the audit log.
    #[schema(min_length = 1, max_length = 500)]
    pub reason: String,
    /// Name of the person who decides. Required if `in_doubt.two_persons` is on and no tokens are configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}
