//! Forecasts and rate certificates of lanes.

use jiff::Timestamp;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;
use crate::{AnswerSource, LaneNumbers, Provisional, Shift};

/// Forecast of a lane.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    /// Time of the forecast.
    pub now: Timestamp,
    /// Forecast for the hypothetical items.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub feed: Option<ForecastFeed>,
    /// Forecast for the real queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub queue: Option<Shift>,
    /// What keeps items that would be late from running earlier: `plan` or `hardLimit`; null if none would be late.
    #[schema(schema_with = words::binds)]
    pub binds: Option<String>,
    /// The lowest limit that would meet every deadline, with its plan. Null if every deadline is
    /// met already or no limit would suffice.
    pub enough: Option<Enough>,
    /// Why no estimate is available.
    pub provisional: Option<Provisional>,
    /// The forecast as one sentence.
    pub verdict: String,
}

/// Forecast for hypothetical items.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForecastFeed {
    /// Number of items.
    pub count: u64,
    /// Time of the first send.
    pub first: Option<Timestamp>,
    /// Time of the last send.
    pub finish: Option<Timestamp>,
    /// Number of items that would miss the deadline.
    pub missed: u64,
    /// Number of items for which the lane never opens.
    pub never: u64,
}

/// The lowest limit that would meet every deadline, with its plan.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Enough {
    /// Hard limit of sends in any second.
    pub max_per_second: u32,
    /// Plan: maximum number of items per window.
    pub max_per_window: u32,
}

/// Rate certificate of a lane, computed from its send log.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Certificate {
    /// Name of the lane.
    pub lane: String,
    /// Start of the day.
    pub from: Timestamp,
    /// End of the day.
    pub to: Timestamp,
    /// Time of the computation if the day was not over; later sends are not included. Null for a
    /// complete day.
    pub as_of: Option<Timestamp>,
    /// True if no sliding second has more sends than its limit.
    pub holds: bool,
    /// Number of sends.
    pub sends: u64,
    /// Time of the first send.
    pub first_send: Option<Timestamp>,
    /// Time of the last send.
    pub last_send: Option<Timestamp>,
    /// The sliding second with the most sends against its limit.
    pub worst_second: Option<Peak>,
    /// The window with the most sends against its plan.
    pub worst_window: Option<Peak>,
    /// Number of sends at the end of a sliding second that exceeded its limit.
    pub sends_above_limit: u64,
    /// Sends, as a share of the sends that the limits allowed between the first and the last send.
    pub utilisation: Option<f64>,
    /// Lane versions that applied, oldest first.
    pub limits: Vec<Limit>,
    /// Where the send log was read from. Archiving and dropping a day do not change its certificate.
    pub source: AnswerSource,
}

/// The busiest second or window.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Peak {
    /// Number of sends.
    pub sends: u32,
    /// Time of the first send of that second, or start of that window.
    pub from: Timestamp,
    /// Highest hard limit in force in that second, or plan of that window.
    #[schema(value_type = f64)]
    pub limit: Decimal,
}

/// A version of a lane that applied.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    /// Number of the version.
    pub version: i64,
    /// Time from which it applies.
    pub since: Timestamp,
    /// Hard limit of sends in any second.
    #[schema(value_type = f64)]
    pub max_per_second: Decimal,
    /// Plan: maximum number of items per window.
    pub max_per_window: u32,
    /// Length of a window.
    pub window_size_secs: u32,
    /// Who set it.
    pub actor: String,
    /// Reason that the actor gave.
    pub reason: String,
}

/// A forecast to compute.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "count": 500_000, "executeAt": "2026-11-16T16:00:00Z", "deadline": "2026-11-16T17:00:00Z"
}))]
pub struct ForecastRequest {
    /// Lane name. Default: the lane of `downstream.payments`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_name: Option<String>,
    /// Number of hypothetical items. Without it, the forecast is for the waiting items.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub count: Option<u64>,
    /// Time at which the hypothetical items are due. Default: now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execute_at: Option<Timestamp>,
    /// Deadline of the hypothetical items.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Hypothetical lane configuration.
    #[serde(default)]
    pub change: WhatIf,
}

/// A hypothetical lane configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WhatIf {
    /// Settings that differ from the lane's.
    #[serde(flatten)]
    pub lane: LaneNumbers,
    /// Hypothetical pause of the lane from now until this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_until: Option<Timestamp>,
}
