//! A calendar as the API writes and reads it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::calendar::{Blackout, CalendarText};
use utoipa::ToSchema;

/// Opening hours of lanes.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CalendarText)]
pub(super) struct CalendarBody {
    /// IANA time zone.
    #[schema(example = "Europe/Berlin")]
    zone: String,
    /// Opening hours by weekday. A day that is not listed is closed. Without `weekly`, every day is
    /// open all day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = json!({"monday": ["09:00-12:00", "13:00-17:30"]}))]
    weekly: Option<BTreeMap<String, Vec<String>>>,
    /// Closed days: date and name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(example = json!({"2026-12-25": "Christmas"}))]
    holidays: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    blackouts: Vec<BlackoutBody>,
}

/// A period in which lanes are closed, regardless of the weekly hours.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Blackout)]
struct BlackoutBody {
    from: Timestamp,
    to: Timestamp,
    #[serde(default)]
    #[schema(max_length = 500)]
    reason: String,
}

impl From<CalendarBody> for CalendarText {
    fn from(body: CalendarBody) -> Self {
        let blackout = |b: BlackoutBody| Blackout {
            from: b.from,
            to: b.to,
            reason: b.reason,
        };
        Self {
            zone: body.zone,
            weekly: body.weekly,
            holidays: body.holidays,
            blackouts: body.blackouts.into_iter().map(blackout).collect(),
        }
    }
}

impl From<CalendarText> for CalendarBody {
    fn from(text: CalendarText) -> Self {
        let blackout = |b: Blackout| BlackoutBody {
            from: b.from,
            to: b.to,
            reason: b.reason,
        };
        Self {
            zone: text.zone,
            weekly: text.weekly,
            holidays: text.holidays,
            blackouts: text.blackouts.into_iter().map(blackout).collect(),
        }
    }
}
