//! What needs a person.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// Everything that needs attention. At most two seconds old.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NeedsYou {
    /// Time at which it was counted.
    pub as_of: Timestamp,
    /// What needs attention, most urgent first. Empty if nothing does.
    pub needs: Vec<Need>,
    /// Kinds that a person has marked as seen. A kind returns to `needs` when its count grows.
    pub seen: Vec<Need>,
    /// Kill switches that are on, including those marked as seen.
    pub kill_switches: Vec<KillSwitch>,
}

/// One kind of items that need attention.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Need {
    /// Stable name of the kind.
    #[schema(schema_with = words::need)]
    pub kind: String,
    /// Human-readable title.
    #[schema(example = "Held")]
    pub title: String,
    /// Number of items, lanes, imports or item types.
    #[schema(example = 1414)]
    pub count: u64,
    /// Whether there may be more than `count`: counting stops at 100,000, and at 10,000 where each item is looked up.
    pub at_least: bool,
    /// Total amounts by currency. Empty where no money is involved.
    pub amounts: Vec<NeedAmount>,
    /// Time at which the oldest was due, sent, accepted, paused or reported. With `deadlines-at-risk`, the first deadline.
    pub oldest: Option<Timestamp>,
    /// What to do.
    #[schema(example = "Release, reschedule or cancel them, one by one or all together.")]
    pub todo: String,
    /// Page of the console on which to do it.
    #[schema(example = "/console/held")]
    pub console: String,
    /// Section of the handbook.
    #[schema(example = "docs/operations.md#payments-are-held")]
    pub handbook: String,
    /// Lanes, item types or parts, each with a sentence. At most 20.
    pub details: Vec<NeedDetail>,
    /// Who marked it as seen. Null in `needs`.
    pub seen: Option<NeedSeen>,
}

/// Total amount in one currency.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NeedAmount {
    /// ISO 4217 code.
    #[schema(example = "USD")]
    pub currency: String,
    /// Number of items.
    pub count: u64,
    /// Total amount as a decimal.
    #[schema(example = "125.50")]
    pub amount: String,
}

/// One lane, item type or part.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NeedDetail {
    /// Its name.
    #[schema(example = "default")]
    pub name: String,
    /// What is wrong, as one sentence.
    #[schema(example = "lane \"default\" is paused by ann: maintenance; 1,234 waiting")]
    pub what: String,
}

/// Who marked it as seen, when, and why nothing needs to be done now.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct NeedSeen {
    /// Actor who marked it as seen.
    pub by: String,
    /// Time at which it was marked as seen.
    pub at: Timestamp,
    /// Why nothing needs to be done now.
    pub reason: String,
    /// The count that was marked as seen. If the count has fallen since, the lower count.
    pub count: u64,
}

/// An item type that is not dispatched.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KillSwitch {
    /// Item type.
    #[schema(example = "PAYMENT")]
    pub item_type: String,
    /// Who switched it off.
    pub by: String,
    /// Time at which it was switched off.
    pub since: Timestamp,
    /// Reason that the actor gave.
    pub reason: String,
}

/// Marks a kind as seen.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NeedSeenRequest {
    /// Why nothing needs to be done now. Recorded in the audit log.
    #[schema(
        min_length = 1,
        max_length = 500,
        example = "the bank clears it tomorrow"
    )]
    pub reason: String,
    /// The count that you saw. 409 if the current count is higher. Default: the current count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub count: Option<u64>,
}
