//! A lane: one downstream's budget. `maxPerWindow` per `windowSizeSecs` is the plan,
//! `maxPerSecond` the hard limit that the gate enforces.

use std::time::Duration;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::gate::Pace;
use crate::id::CalendarName;

pub const LARGEST_WINDOW_SECS: u32 = 86_400;
pub const LARGEST_PER_SECOND: u32 = 100_000;
/// One send in twenty seconds: a sender waits for its turn at the gate, and not for longer than that.
pub const SLOWEST_PER_SECOND: Decimal = Decimal::from_parts(5, 0, 0, false, 2);

/// How slots lie within a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spread {
    #[default]
    Even,
    /// Uniformly random.
    Jitter,
}

impl Spread {
    pub const ALL: [Self; 2] = [Self::Even, Self::Jitter];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Jitter => "jitter",
        }
    }
}

/// Who stops a lane, and why. Its sends stop; its slots keep being given, after the end of the
/// pause if that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pause {
    pub actor: String,
    pub reason: String,
    /// At once, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Until someone resumes the lane, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// When it was ordered; the store says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl Pause {
    /// At once, and until someone resumes.
    pub fn now(actor: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            actor: actor.into(),
            reason: reason.into(),
            from: None,
            until: None,
            since: None,
        }
    }

    pub fn holds_at(&self, time: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= time) && self.until.is_none_or(|until| time < until)
    }

    fn check(&self) -> Result<(), String> {
        match (self.from, self.until) {
            (Some(from), Some(until)) if until <= from => {
                Err("until: must be after the beginning of the pause".into())
            }
            _ => Ok(()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lane {
    pub max_per_window: u32,
    pub window_size_secs: u32,
    pub max_per_second: Decimal,
    #[serde(default)]
    pub spread: Spread,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<CalendarName>,
    #[serde(default)]
    pub pause: Option<Pause>,
}

/// A wanted change: what is omitted keeps its value.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LaneChange {
    pub max_per_window: Option<u32>,
    pub window_size_secs: Option<u32>,
    pub max_per_second: Option<Decimal>,
    pub spread: Option<Spread>,
    /// `Some(None)` takes the calendar off.
    pub calendar: Option<Option<CalendarName>>,
    /// `Some(None)` resumes.
    pub pause: Option<Option<Pause>>,
}

impl LaneChange {
    /// A pause that is new says since when it was ordered.
    #[must_use]
    pub fn ordered_at(mut self, now: Timestamp) -> Self {
        if let Some(Some(pause)) = &mut self.pause {
            pause.since.get_or_insert(now);
        }
        self
    }
}

impl Lane {
    /// The lane after a change, or the sentence that says which field is wrong.
    /// Without a lane there must be a plan; its hard limit is then twice the planned rate.
    pub fn changed(current: Option<&Self>, change: LaneChange) -> Result<Self, String> {
        let max_per_window = change
            .max_per_window
            .or(current.map(|lane| lane.max_per_window))
            .ok_or("maxPerWindow is required for a new lane")?;
        let window_size_secs = change
            .window_size_secs
            .or(current.map(|lane| lane.window_size_secs))
            .ok_or("windowSizeSecs is required for a new lane")?;
        if max_per_window == 0 {
            return Err(
                "maxPerWindow: a limit of 0 would never send; pause the lane instead".into(),
            );
        }
        if window_size_secs == 0 || window_size_secs > LARGEST_WINDOW_SECS {
            return Err(format!(
                "windowSizeSecs must be between 1 and {LARGEST_WINDOW_SECS}"
            ));
        }
        let twice_the_plan = || {
            let plan = Decimal::from(max_per_window) / Decimal::from(window_size_secs);
            (plan * Decimal::TWO).max(SLOWEST_PER_SECOND)
        };
        let max_per_second = change
            .max_per_second
            .or(current.map(|lane| lane.max_per_second))
            .unwrap_or_else(twice_the_plan);
        if max_per_second <= Decimal::ZERO {
            return Err(
                "maxPerSecond: a limit of 0 would never send; pause the lane instead".into(),
            );
        }
        if max_per_second > Decimal::from(LARGEST_PER_SECOND) || max_per_second < SLOWEST_PER_SECOND
        {
            return Err(format!(
                "maxPerSecond must be between {SLOWEST_PER_SECOND} and {LARGEST_PER_SECOND}"
            ));
        }
        if let Some(Some(pause)) = &change.pause {
            pause.check()?;
        }
        Ok(Self {
            max_per_window,
            window_size_secs,
            max_per_second,
            calendar: change
                .calendar
                .unwrap_or_else(|| current.and_then(|lane| lane.calendar.clone())),
            spread: change
                .spread
                .or(current.map(|lane| lane.spread))
                .unwrap_or_default(),
            pause: change
                .pause
                .unwrap_or_else(|| current.and_then(|lane| lane.pause.clone())),
        })
    }

    pub fn window_size(&self) -> Duration {
        Duration::from_secs(u64::from(self.window_size_secs))
    }

    /// How many a window takes that is open all the time: the plan, or the turns in it if those are fewer.
    pub fn capacity(&self, margin: Decimal) -> u32 {
        let turns = self.pace(margin).turns_in(self.window_size());
        self.max_per_window.min(turns.max(1))
    }

    pub fn pace(&self, margin: Decimal) -> Pace {
        Pace::of(self.max_per_second, margin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(window: u32, secs: u32) -> Result<Lane, String> {
        let change = LaneChange {
            max_per_window: Some(window),
            window_size_secs: Some(secs),
            ..LaneChange::default()
        };
        Lane::changed(None, change)
    }

    #[test]
    fn a_new_lane_may_send_twice_its_plan() {
        assert_eq!(new(100, 4).unwrap().max_per_second, Decimal::from(50));
        assert_eq!(new(1, 4).unwrap().max_per_second, Decimal::new(5, 1));
        assert_eq!(new(1, 600).unwrap().max_per_second, SLOWEST_PER_SECOND);
    }

    #[test]
    fn an_omitted_field_keeps_its_value() {
        let lane = new(100, 4).unwrap();
        let change = LaneChange {
            max_per_window: Some(200),
            ..LaneChange::default()
        };
        let changed = Lane::changed(Some(&lane), change).unwrap();
        assert_eq!(changed.max_per_second, Decimal::from(50));
        assert_eq!(changed.max_per_window, 200);
    }

    #[test]
    fn limits_that_would_never_send_name_the_remedy() {
        assert!(new(0, 4).unwrap_err().contains("pause the lane instead"));
        assert!(new(100, 0).unwrap_err().contains("windowSizeSecs"));
        let lane = new(100, 4).unwrap();
        for rate in [Decimal::ZERO, Decimal::from(-5)] {
            let change = LaneChange {
                max_per_second: Some(rate),
                ..LaneChange::default()
            };
            assert!(
                Lane::changed(Some(&lane), change)
                    .unwrap_err()
                    .contains("maxPerSecond")
            );
        }
    }
}
