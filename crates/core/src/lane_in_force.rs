//! A lane as it is now, and whether it sends: one answer for the gate, the dispatcher and for
//! whoever asks why something is not running.

use std::sync::Arc;
use std::time::Duration;

use rust_decimal::Decimal;

use crate::Timestamp;
use crate::calendar::Calendar;
use crate::id::LaneName;
use crate::lane::{Lane, Pause};
use crate::open_time::{OpenTime, Stretch};
use crate::ports::{Author, StormPause};
use crate::window::Windows;

/// A lane that sends nothing is asked about again after this time at the earliest.
pub const CLOSED_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneInForce {
    pub name: LaneName,
    pub version: i64,
    pub lane: Lane,
    /// Of the calendar that the lane names, as it is now.
    pub calendar: Option<Arc<Calendar>>,
    /// From here on this version binds every node.
    pub effective_at: Timestamp,
    /// Closed until then: its downstream asked for quiet (`Retry-After`), or the breaker did it.
    pub closed_until: Option<Timestamp>,
    /// Who closed it and why; `None` if its downstream asked for quiet.
    pub closed_by: Option<Author>,
    /// A refusal storm has paused it, until a person resumes it.
    pub storm: Option<StormPause>,
}

/// Whether a lane sends, and for how long that holds at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneState {
    Open {
        until: Timestamp,
    },
    Closed {
        why: String,
        /// `None`: until a person changes it.
        until: Option<Timestamp>,
    },
}

impl LaneState {
    pub fn of(lane: Option<&LaneInForce>, name: &LaneName, now: Timestamp) -> Self {
        match lane {
            Some(lane) => lane.state(now),
            None => Self::Closed {
                why: no_such_lane(name),
                until: None,
            },
        }
    }

    /// When the lane can next be claimed for, if its first work comes into reach at `first`.
    pub fn workable_from(&self, first: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Open { .. } => Some(first),
            Self::Closed { until, .. } => until.map(|until| first.max(until)),
        }
    }
}

/// How long something that is closed until then stays closed at least.
pub fn closed_for(until: Option<Timestamp>, now: Timestamp) -> Duration {
    let left = until.map(|until| until.duration_since(now));
    left.and_then(|left| Duration::try_from(left).ok())
        .unwrap_or(CLOSED_PAUSE)
}

pub fn no_such_lane(name: &LaneName) -> String {
    format!("lane \"{name}\" does not exist; create it with POST /admin/rate-limit/config")
}

pub fn never_opens(name: &LaneName, from: Timestamp) -> String {
    format!(
        "lane \"{name}\" never opens after {from}; choose an earlier time or change its calendar"
    )
}

impl LaneInForce {
    pub fn state(&self, now: Timestamp) -> LaneState {
        let name = &self.name;
        if let Some(pause) = self.pause().filter(|p| p.holds_at(now)) {
            let (actor, reason) = (&pause.actor, &pause.reason);
            return LaneState::Closed {
                why: format!("lane \"{name}\" is paused by {actor}: {reason}"),
                until: pause.until,
            };
        }
        if let Some(until) = self.closed_until.filter(|until| *until > now) {
            let who = match &self.closed_by {
                Some(Author { actor, reason }) => format!("the {actor}: {reason}"),
                None => "its downstream (Retry-After)".to_owned(),
            };
            return LaneState::Closed {
                why: format!("lane \"{name}\" is closed by {who}"),
                until: Some(until),
            };
        }
        let closed_by_calendar = |until| LaneState::Closed {
            why: match &self.lane.calendar {
                Some(calendar) => format!("lane \"{name}\" is closed by calendar \"{calendar}\""),
                None => format!("lane \"{name}\" never opens"),
            },
            until,
        };
        match self.open_time().stretch_from(now) {
            None => closed_by_calendar(None),
            Some(open) if open.from > now => closed_by_calendar(Some(open.from)),
            Some(open) => {
                let pause = self.lane.pause.as_ref().and_then(|pause| pause.from);
                let until = pause
                    .filter(|from| *from > now)
                    .map_or(open.to, |from| open.to.min(from));
                LaneState::Open { until }
            }
        }
    }

    /// What stops it now or will: a storm, or else what a person has set.
    pub fn pause(&self) -> Option<Pause> {
        let storm = self.storm.as_ref();
        storm
            .map(StormPause::pause)
            .or_else(|| self.lane.pause.clone())
    }

    #[must_use]
    pub fn with_calendar(self, calendar: Arc<Calendar>) -> Self {
        Self {
            calendar: Some(calendar),
            ..self
        }
    }

    /// The time slots and turns may lie in. A pause counts if its end is known.
    pub fn open_time(&self) -> OpenTime {
        let pause = self.lane.pause.as_ref();
        let closed = pause.and_then(|pause| {
            Some(Stretch {
                from: pause.from.unwrap_or(Timestamp::MIN),
                to: pause.until?,
            })
        });
        OpenTime::new(self.calendar.clone(), closed)
    }

    pub fn windows(&self, margin: Decimal) -> Windows {
        Windows::of(&self.lane, margin, self.open_time())
    }

    /// How many more items may be started: what the gate can send within the horizon, less what
    /// is under way and has not had its turn.
    pub fn credit(&self, margin: Decimal, horizon: Duration, unsent: u32) -> u32 {
        let sendable = self.lane.pace(margin).turns_in(horizon).max(1);
        sendable.saturating_sub(unsent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actor;
    use crate::lane::LaneChange;

    #[test]
    fn who_has_closed_a_lane_is_told_until_it_opens() {
        let change = LaneChange {
            max_per_window: Some(100),
            window_size_secs: Some(4),
            ..LaneChange::default()
        };
        let until = Timestamp::from_second(1_800_000_000).unwrap();
        let mut lane = LaneInForce {
            name: LaneName::new("bank"),
            version: 1,
            lane: Lane::changed(None, change).unwrap(),
            calendar: None,
            effective_at: Timestamp::UNIX_EPOCH,
            closed_until: Some(until),
            closed_by: None,
            storm: None,
        };
        let breaker = Author::new(actor::BREAKER, "10 of the last 20 exchanges failed");
        let table = [
            (None, "its downstream (Retry-After)"),
            (
                Some(breaker),
                "the breaker: 10 of the last 20 exchanges failed",
            ),
        ];
        for (by, told) in table {
            lane.closed_by = by;
            let closed = LaneState::Closed {
                why: format!("lane \"bank\" is closed by {told}"),
                until: Some(until),
            };
            assert_eq!(lane.state(until - Duration::from_millis(1)), closed);
            assert!(matches!(lane.state(until), LaneState::Open { .. }));
        }
    }
}
