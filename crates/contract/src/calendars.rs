//! Calendars: opening hours of lanes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A calendar.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Calendar {
    /// Name of the calendar.
    pub name: String,
    /// Number of the version.
    pub version: i64,
    /// Time from which it applies.
    pub effective_at: Timestamp,
    /// The opening hours.
    #[serde(flatten)]
    pub text: CalendarText,
    /// Lanes that use this calendar.
    pub lanes: Vec<String>,
    /// The next opening times.
    pub next_openings: Vec<Opening>,
}

/// A period in which lanes are open.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct Opening {
    /// Start.
    pub from: Timestamp,
    /// End.
    pub to: Timestamp,
}

/// Opening hours of lanes.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CalendarText {
    /// IANA time zone.
    #[schema(example = "Europe/Berlin")]
    pub zone: String,
    /// Opening hours by weekday. A day that is not listed is closed. Without `weekly`, every day is
    /// open all day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = json!({"monday": ["09:00-12:00", "13:00-17:30"]}))]
    pub weekly: Option<BTreeMap<String, Vec<String>>>,
    /// Closed days: date and name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(example = json!({"2026-12-25": "Christmas"}))]
    pub holidays: BTreeMap<String, String>,
    /// Periods in which lanes are closed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blackouts: Vec<Blackout>,
}

/// A period in which lanes are closed, regardless of the weekly hours.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Blackout {
    /// Start.
    pub from: Timestamp,
    /// End.
    pub to: Timestamp,
    /// Reason.
    #[serde(default)]
    #[schema(max_length = 500)]
    pub reason: String,
}

/// A new calendar.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CalendarChange {
    /// The opening hours.
    #[serde(flatten)]
    pub text: CalendarText,
    /// Reason, recorded in the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 500)]
    pub reason: Option<String>,
    /// Required if the change would leave waiting items without a slot.
    #[serde(default)]
    pub confirm: bool,
}
