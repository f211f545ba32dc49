//! What is foreseen, as the API says it: a time and how exact it is, or why no time can be told.

use tollgate_contract as contract;
use tollgate_core::timetable::Untold;
use tollgate_dispatch::ItemForecast;

use crate::answer::of::Of;

impl Of<&Untold> for contract::Provisional {
    fn of(untold: &Untold) -> Self {
        Self {
            code: untold.code.as_str().to_owned(),
            reason: untold.reason.clone(),
            since: untold.since,
        }
    }
}

/// What is foreseen, and whether the deadline is met.
impl Of<(Option<ItemForecast>, Option<bool>)> for contract::Foreseen {
    fn of((foreseen, meets_deadline): (Option<ItemForecast>, Option<bool>)) -> Self {
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
            provisional: foreseen.sent.as_ref().err().map(contract::Provisional::of),
            meets_deadline,
        }
    }
}
