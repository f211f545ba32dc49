//! Lanes: configuration, state, activity, replans, and refusal storms.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::words;
use crate::{AtRisk, Enough, Provisional};

/// A lane with its current configuration and state.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    /// Name of the lane.
    #[schema(example = "default")]
    pub config_name: String,
    /// Plan: maximum number of items per window.
    #[schema(example = 100)]
    pub max_per_window: u32,
    /// Length of a window.
    #[schema(example = 4)]
    pub window_size_secs: u32,
    /// Hard limit of sends in any second.
    #[schema(value_type = f64, example = 50.0)]
    pub max_per_second: Decimal,
    /// Capacity of a fully open window: `maxPerWindow`, or less if the hard limit is lower.
    #[schema(example = 100)]
    pub capacity_per_window: u32,
    /// How slots are spread over a window.
    #[schema(schema_with = words::spread)]
    pub spread: String,
    /// Calendar with the opening hours, or null.
    pub calendar: Option<String>,
    /// The pause, if the lane is paused or will be.
    pub pause: Option<Pause>,
    /// Number of the refusal storm that paused the lane; see `GET /admin/storms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 1)]
    pub storm: Option<i64>,
    /// Number of the version.
    pub version: i64,
    /// Time from which the configuration applies to every node.
    pub effective_at: Timestamp,
    /// Lane state: whether the lane sends now, and if not, why and until when.
    pub open: bool,
    /// Why the lane is closed. Missing if it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub closed_because: Option<String>,
    /// When the lane opens again, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub opens_at: Option<Timestamp>,
}

/// Pause of a lane: reason, start and end.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Pause {
    /// Who paused the lane.
    pub actor: String,
    /// Reason that the actor gave.
    pub reason: String,
    /// Default: now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub from: Option<Timestamp>,
    /// Default: until the lane is resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub until: Option<Timestamp>,
}

/// A window and its use.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Start of the window.
    pub window_start: Timestamp,
    /// Number of slots that are taken.
    pub slot_count: u32,
    /// Total capacity of the window.
    pub capacity: u32,
}

/// Activity of all lanes. At most one second old.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LanesActivity {
    /// Time of the answer.
    pub now: Timestamp,
    /// Start of the period with sends per second.
    pub since: Timestamp,
    /// The lanes, sorted by name.
    pub lanes: Vec<LaneNow>,
    /// By currency; updated every few seconds.
    pub payments_in_doubt: Vec<AtRisk>,
    /// By currency; updated every few seconds.
    pub invoices_in_doubt: Vec<AtRisk>,
}

/// Live activity of a lane.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LaneNow {
    /// The lane with its configuration and state.
    pub lane: Lane,
    /// Planned rate per second.
    #[schema(value_type = f64, example = 25.0)]
    pub planned_per_second: Decimal,
    /// Items not sent yet, including items in progress.
    pub waiting: u64,
    /// Waiting items whose due time has passed.
    pub overdue: u64,
    /// Waiting items that will miss their deadline or be held. At most two seconds old.
    pub late: u64,
    /// Waiting items with a deadline for which no estimate is available.
    pub untold: u64,
    /// Waiting items that have a deadline.
    pub with_deadline: u64,
    /// Estimated time at which the last waiting item is sent. Null if the queue is empty or no
    /// estimate is available.
    pub drained_at: Option<Timestamp>,
    /// Why no estimate is available.
    pub provisional: Option<Provisional>,
    /// Delay from slot to send in milliseconds, 99th percentile. A deadline must be at least this
    /// much later than the estimate.
    #[schema(example = 20)]
    pub slot_to_turn_ms: u64,
    /// Maximum number of sends in any sliding second of that period.
    pub worst_second: u32,
    /// Seconds that had sends, in order.
    pub seconds: Vec<Second>,
}

/// Sends in one second.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Second {
    /// Start of the second.
    pub at: Timestamp,
    /// Number of sends.
    pub sends: u32,
}

/// A replan, or its preview.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replan {
    /// Name of the lane.
    pub lane: String,
    /// Whether this is only a preview.
    pub preview: bool,
    /// The effect on waiting items.
    #[serde(flatten)]
    pub shift: Shift,
}

/// Result of counting a lane's slots again.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recount {
    /// Name of the lane.
    pub lane: String,
    /// Number of windows whose count was wrong.
    pub windows_corrected: u64,
    /// Number of slots that were counted but not taken.
    pub room_returned: u64,
    /// Number of slots that were taken but not counted.
    pub slots_not_counted: u64,
}

/// One version of a setting.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Number of the version.
    pub version: i64,
    /// Time from which it applies.
    pub since: Timestamp,
    /// Who did it.
    pub actor: String,
    /// Reason that the actor gave.
    pub reason: String,
    /// The setting as it was stored.
    #[schema(schema_with = words::stored)]
    pub body: Value,
}

/// Effect of a replan.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Shift {
    /// Number of waiting items.
    pub waiting: u64,
    /// Items that run earlier.
    pub earlier: u64,
    /// Items that run later.
    pub later: u64,
    /// Time of the last send without the change.
    pub finish_before: Option<Timestamp>,
    /// Time of the last send with the change.
    pub finish_after: Option<Timestamp>,
    /// Deadlines that are missed now and met with the change.
    pub deadlines_won: u64,
    /// Deadlines that are met now and missed with the change.
    pub deadlines_lost: u64,
    /// Deadlines missed without the change.
    pub missed_before: u64,
    /// Deadlines missed with the change.
    pub missed_after: u64,
    /// Items for which the lane never opens. They keep their slots.
    pub never: u64,
    /// Items for which no estimate is available.
    pub untold: u64,
    /// Waiting items that have a deadline.
    pub with_deadline: u64,
}

/// The settings of a lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LaneSettings {
    /// Hard limit of sends in any second.
    #[schema(value_type = f64, example = 50.0)]
    pub max_per_second: Decimal,
    /// Plan: maximum number of items per window.
    #[schema(example = 100)]
    pub max_per_window: u32,
    /// Length of a window.
    #[schema(example = 4)]
    pub window_size_secs: u32,
    /// How slots are spread over a window.
    #[schema(schema_with = words::spread)]
    pub spread: String,
    /// Calendar with the opening hours, or null.
    pub calendar: Option<String>,
}

/// An adjustment of a lane: previewed, or applied.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LaneAdjusted {
    /// Name of the lane.
    pub lane: String,
    /// Whether the adjustment was applied.
    pub applied: bool,
    /// Version of the lane: the one that the preview is about, or the new one.
    pub version: i64,
    /// The lane before the adjustment.
    pub before: LaneSettings,
    /// The lane after the adjustment.
    pub after: LaneSettings,
    /// What keeps items that will be late from running earlier, before the adjustment. Null if none will be late.
    #[schema(schema_with = words::binds)]
    pub binds: Option<String>,
    /// The lowest limit that would meet every deadline, with its plan. Null if every deadline is met already or no
    /// limit would suffice.
    pub enough: Option<Enough>,
    /// The forecast before the adjustment, as one sentence.
    pub verdict: String,
    /// The waiting items that move, and their deadlines.
    pub effect: Shift,
    /// The forecast after the adjustment, as one sentence.
    pub verdict_after: String,
    /// Why `confirm` is required to apply the adjustment; otherwise null.
    pub strands: Option<String>,
    /// Pass it as `digest` to apply exactly this. Null once it is applied.
    pub digest: Option<String>,
    /// The preview can be confirmed until this time.
    pub expires_at: Option<Timestamp>,
}

/// Refusal storms, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct StormList {
    /// The refusal storms.
    pub storms: Vec<Storm>,
}

/// A refusal storm: a lane was paused automatically because its bank refused nearly every payment.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Storm {
    /// Number of the refusal storm.
    #[schema(example = 1)]
    pub storm: i64,
    /// Name of the lane.
    #[schema(example = "default")]
    pub lane: String,
    /// Which configured bank refused: `payments`, `invoices`, or a gateway.
    #[schema(example = "payments")]
    pub connector: String,
    /// The counted refusals and the last answer.
    pub reason: String,
    /// Time at which the lane was paused.
    pub since: Timestamp,
    /// When a person resumed the lane; null while it is paused.
    pub lifted_at: Option<Timestamp>,
}

/// The payments that were reopened, or would be.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReopenedStorm {
    /// Number of the refusal storm.
    pub storm: i64,
    /// Whether this is only a preview.
    pub preview: bool,
    /// Number of reopened payments.
    pub reopened: u64,
    /// Amounts by currency.
    #[schema(example = json!({"USD": "1255.00"}))]
    pub amounts: BTreeMap<String, String>,
    /// Number of payments that stay rejected.
    pub kept: u64,
    /// Reasons for up to 100 of these payments.
    pub kept_because: BTreeMap<String, String>,
    /// False if there are more payments: send the request again.
    pub complete: bool,
}
