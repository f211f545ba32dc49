//! Held items.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::NeedAmount;

/// Held items, and their total amounts.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeldList {
    /// Number of held items of this type, for all gateways.
    pub count: u64,
    /// Whether there may be more than `count`: counting stops at 100,000.
    pub at_least: bool,
    /// Amounts of all held items of this type.
    pub amounts: Vec<NeedAmount>,
    /// The held items of this page.
    pub items: Vec<Held>,
    /// Page token: pass it as `after`. Null on the last page.
    pub next: Option<String>,
    /// Page token: pass it as `before`. Null on the first page.
    pub previous: Option<String>,
    /// False if the search for a gateway stopped before the page was full: continue with `next`.
    pub complete: bool,
    /// Set if the search stopped early: held items beyond this due time were not examined.
    pub scanned_to: Option<Timestamp>,
}

/// A held item: it waits until a person releases, reschedules or cancels it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// Item type.
    #[schema(example = "PAYMENT")]
    pub item_type: String,
    /// Id of the item.
    #[schema(example = "pay_001")]
    pub id: String,
    /// Amount as a decimal.
    #[schema(example = "125.50")]
    pub amount: String,
    /// ISO 4217 code.
    #[schema(example = "USD")]
    pub currency: String,
    /// Name of the lane.
    pub lane: String,
    /// When it was due.
    pub due: Timestamp,
    /// Deadline, or null.
    pub deadline: Option<Timestamp>,
    /// Rules that hold it. Empty if it missed its deadline.
    pub rules: Vec<String>,
    /// Why it is held.
    pub why: Option<String>,
}
