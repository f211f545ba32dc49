//! What is foreseen, as the API says it: a time and how exact it is, or why no time can be told.

use serde::Serialize;
use tollgate_core::Timestamp;
use tollgate_core::timetable::Untold;
use tollgate_dispatch::ItemForecast;
use utoipa::ToSchema;

use crate::api::contract::words;

/// Estimate for one item.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Foreseen)]
pub(crate) struct Foreseen {
    /// Estimated send time. Null if no estimate is available, and after the send.
    pub(crate) estimate: Option<Timestamp>,
    /// Uncertainty of the estimate in milliseconds.
    #[schema(example = 4000)]
    pub(crate) tolerance_ms: Option<u64>,
    /// Time of the estimate.
    pub(crate) as_of: Option<Timestamp>,
    /// Why no estimate is available. Null if there is one, and after the send.
    pub(crate) provisional: Option<Provisional>,
    /// Whether the item meets, or met, its deadline. Null without a deadline or if `provisional` is set.
    pub(crate) meets_deadline: Option<bool>,
}

/// Why no estimate is available.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Provisional)]
pub(crate) struct Provisional {
    #[schema(schema_with = words::untold_code)]
    code: &'static str,
    #[schema(example = "lane \"default\" is paused by ann until someone resumes it: maintenance")]
    reason: String,
    since: Timestamp,
}

impl Provisional {
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }
}

impl From<&Untold> for Provisional {
    fn from(untold: &Untold) -> Self {
        Self {
            code: untold.code.as_str(),
            reason: untold.reason.clone(),
            since: untold.since,
        }
    }
}

impl Foreseen {
    pub(crate) fn of(foreseen: Option<ItemForecast>, meets_deadline: Option<bool>) -> Self {
        let Some(foreseen) = foreseen else {
            return Self {
                meets_deadline,
                ..Self::default()
            };
        };
        let tolerance = u64::try_from(foreseen.tolerance.as_millis()).ok();
        Self {
            estimate: foreseen.sent.as_ref().ok().copied(),
            tolerance_ms: tolerance.filter(|_| foreseen.sent.is_ok()),
            as_of: Some(foreseen.as_of),
            provisional: foreseen.sent.as_ref().err().map(Provisional::from),
            meets_deadline,
        }
    }
}
