//! A calendar as the API writes and reads it.

use tollgate_contract as contract;
use tollgate_core::calendar::{Blackout, CalendarText};

use crate::answer::of::Of;

/// As the rest of the code knows it.
pub(super) fn read(body: contract::CalendarText) -> CalendarText {
    let blackout = |b: contract::Blackout| Blackout {
        from: b.from,
        to: b.to,
        reason: b.reason,
    };
    CalendarText {
        zone: body.zone,
        weekly: body.weekly,
        holidays: body.holidays,
        blackouts: body.blackouts.into_iter().map(blackout).collect(),
    }
}

impl Of<CalendarText> for contract::CalendarText {
    fn of(text: CalendarText) -> Self {
        let blackout = |b: Blackout| contract::Blackout {
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
