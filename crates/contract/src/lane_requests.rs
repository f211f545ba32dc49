//! What is asked of lanes: changes, pauses, replans.

use jiff::Timestamp;
use rust_decimal::Decimal;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::words;

/// A pause of a lane.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// Reason, recorded in the audit log.
    #[schema(
        min_length = 1,
        max_length = 500,
        example = "the bank asked for a pause"
    )]
    pub reason: String,
    /// Default: now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Default: until the lane is resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The end of a lane's pause.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRequest {
    /// Reason, recorded in the audit log.
    #[schema(
        min_length = 1,
        max_length = 500,
        example = "the bank asked for a pause"
    )]
    pub reason: String,
    /// Default: now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// A replan of a lane, or its preview.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplanRequest {
    /// Reason, recorded in the audit log. Required unless `preview` is true.
    #[serde(default)]
    #[schema(max_length = 500)]
    pub reason: String,
    /// Preview only; change nothing.
    #[serde(default)]
    pub preview: bool,
}

/// Reopens the payments of a refusal storm, or previews that.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReopenRequest {
    /// Reason, recorded in the audit log. Required unless `preview` is true.
    #[serde(default)]
    pub reason: String,
    /// Only report which payments would be reopened.
    #[serde(default)]
    pub preview: bool,
}

/// A change of a lane, or a new lane. A new lane needs `maxPerWindow` and `windowSizeSecs`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "configName": "default", "maxPerWindow": 100, "windowSizeSecs": 4, "maxPerSecond": 50,
    "reason": "the bank takes 50 a second"
}))]
pub struct LaneChange {
    /// Name of the lane.
    #[schema(schema_with = words::id)]
    pub config_name: String,
    /// The new settings.
    #[serde(flatten)]
    pub change: LaneNumbers,
    /// Reason, recorded in the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 500)]
    pub reason: Option<String>,
    /// Required if the change would leave waiting items without a slot.
    #[serde(default)]
    pub confirm: bool,
}

/// Fields that are not given keep their value.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LaneNumbers {
    /// Plan: maximum number of items per window.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_per_window: Option<u32>,
    /// Length of a window.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 86400)]
    pub window_size_secs: Option<u32>,
    /// Hard limit of sends in any second. Default for a new lane: twice its planned rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, maximum = 100_000)]
    pub max_per_second: Option<Decimal>,
    /// How slots are spread over a window.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = words::spread_or_null)]
    pub spread: Option<String>,
    /// `null` removes the calendar.
    #[serde(
        default,
        deserialize_with = "given",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>)]
    pub calendar: Option<Option<String>>,
}

/// An adjustment of a lane, or its preview.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"dryRun": true, "maxPerSecond": 50, "maxPerWindow": 200}))]
pub struct LaneAdjustment {
    /// Without any settings, the preview proposes settings that would meet every deadline.
    #[serde(flatten)]
    pub change: LaneNumbers,
    /// Reason, recorded in the audit log. Required unless `dryRun` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 500)]
    pub reason: Option<String>,
    /// Preview only; change nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// The `digest` of the preview. Required unless `dryRun` is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Required if the change would leave waiting items without a slot.
    #[serde(default)]
    pub confirm: bool,
}

/// For fields where `null` says something else than leaving them out.
#[expect(
    clippy::option_option,
    reason = "left out, null and given are three things"
)]
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}
