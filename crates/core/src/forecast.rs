//! What would happen: the arithmetic of assignment over a plan in memory. Nothing is written.

use std::collections::BTreeMap;

use rust_decimal::Decimal;

use crate::Timestamp;
use crate::lane::{LARGEST_PER_SECOND, Spread};
use crate::lane_in_force::LaneInForce;
use crate::slot::{Counter, assign};
use crate::window::Windows;

/// How many items each window holds already.
pub type Taken = BTreeMap<Timestamp, Counter>;

/// Items that ask for the same moment and have the same deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    pub from: Timestamp,
    pub deadline: Option<Timestamp>,
    pub count: u64,
}

/// When items would run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Forecast {
    pub count: u64,
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    /// After their deadline.
    pub missed: u64,
    /// The lane never opens for them.
    pub never: u64,
}

impl Forecast {
    fn add(&mut self, count: u64, first: Timestamp, last: Timestamp, missed: u64) {
        self.count += count;
        self.first = Some(self.first.map_or(first, |t| t.min(first)));
        self.last = Some(self.last.map_or(last, |t| t.max(last)));
        self.missed += missed;
    }
}

/// A forecast looks at no more windows than this.
pub const MOST_VISITED: u32 = 2_000_000;

/// Gives every item of every group its slot, in order, evenly spread. `None` if that would take
/// too many windows.
pub fn forecast(windows: &Windows, taken: &mut Taken, groups: &[Group]) -> Option<Forecast> {
    forecast_until(windows, taken, groups, |_| false)
}

/// The same, but no further than it takes to know.
fn forecast_until(
    windows: &Windows,
    taken: &mut Taken,
    groups: &[Group],
    is_known: impl Fn(&Forecast) -> bool,
) -> Option<Forecast> {
    let mut forecast = Forecast::default();
    let mut visited = 0;
    for group in groups {
        let mut left = group.count;
        while left > 0 {
            visited += 1;
            if visited > MOST_VISITED {
                return None;
            }
            let Some(placed) = fill(windows, taken, group, left) else {
                forecast.never += left;
                break;
            };
            forecast.add(placed.count, placed.first, placed.last, placed.missed);
            left -= placed.count;
            if is_known(&forecast) {
                return Some(forecast);
            }
        }
    }
    Some(forecast)
}

struct Placed {
    count: u64,
    first: Timestamp,
    last: Timestamp,
    missed: u64,
}

/// As many items of a group as the first window with room takes: [`assign`] once, and the rest of
/// the window by the same division.
fn fill(windows: &Windows, taken: &mut Taken, group: &Group, left: u64) -> Option<Placed> {
    let Ok(place) = assign(windows, Spread::Even, group.from, 0, taken);
    let place = place?;
    let open = windows.open_part(place.window, group.from.max(place.window));
    let counter = taken.get_mut(&place.window)?;
    let first = counter.used - 1;
    let more = u64::from(open.capacity - counter.used).min(left - 1);
    let last = counter.used + u32::try_from(more).unwrap_or(0) - 1;
    counter.used = last + 1;
    let moment = |n: u32| open.moment((n, open.capacity)).unwrap_or(place.scheduled);
    let missed = group.deadline.map_or(0, |deadline| {
        // Moments ascend: the first late one is found by halving.
        let (mut met, mut late) = (first, last + 1);
        while met < late {
            let middle = met + (late - met) / 2;
            if moment(middle) <= deadline {
                met = middle + 1;
            } else {
                late = middle;
            }
        }
        u64::from(last + 1 - late)
    });
    Some(Placed {
        count: more + 1,
        first: moment(first),
        last: moment(last),
        missed,
    })
}

/// A plan and a hard limit with which nothing misses its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enough {
    pub max_per_second: u32,
    pub max_per_window: u32,
}

/// The lowest whole limit a second with which nothing misses its deadline, if there is one. The
/// plan goes along: as many per window as the limit allows.
pub fn enough(
    lane: &LaneInForce,
    margin: Decimal,
    taken: &Taken,
    groups: &[Group],
) -> Option<Enough> {
    let of = |rate: u32| Enough {
        max_per_second: rate,
        max_per_window: rate.saturating_mul(lane.lane.window_size_secs),
    };
    let suffices = |rate: u32| {
        let mut wider = lane.clone();
        wider.lane.max_per_second = rate.into();
        wider.lane.max_per_window = of(rate).max_per_window;
        // The first that is late decides: a rate that is far too low would fill windows for years.
        let is_known = |forecast: &Forecast| forecast.missed > 0;
        let windows = wider.windows(margin);
        let forecast = forecast_until(&windows, &mut taken.clone(), groups, is_known);
        forecast.is_some_and(|forecast| forecast.missed == 0 && forecast.never == 0)
    };
    let (mut low, mut high) = (0, LARGEST_PER_SECOND);
    if !suffices(high) {
        return None;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if suffices(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(of(high))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gate::DEFAULT_MARGIN;
    use crate::id::LaneName;
    use crate::lane::{Lane, LaneChange};
    use std::sync::Arc;

    use crate::calendar::{Calendar, CalendarText};

    fn lane(per_window: u32, secs: u32, hard: u32, calendar: Option<&str>) -> LaneInForce {
        let change = LaneChange {
            max_per_window: Some(per_window),
            window_size_secs: Some(secs),
            max_per_second: Some(hard.into()),
            ..LaneChange::default()
        };
        let calendar = calendar.map(|hours| {
            let days = ["monday", "tuesday", "thursday", "friday", "sunday"];
            let hours = vec![hours.to_owned()];
            let text = CalendarText {
                zone: "America/New_York".into(),
                weekly: Some(days.map(|d| (d.to_owned(), hours.clone())).into()),
                ..CalendarText::default()
            };
            Arc::new(Calendar::read(&text).unwrap())
        });
        LaneInForce {
            name: LaneName::new("bank"),
            version: 1,
            lane: Lane::changed(None, change).unwrap(),
            calendar,
            effective_at: Timestamp::UNIX_EPOCH,
            closed_until: None,
            closed_by: None,
            storm: None,
        }
    }
    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap()
    }
    fn group(ms: i64, count: u64, deadline_ms: Option<i64>) -> Group {
        Group {
            from: at(ms),
            deadline: deadline_ms.map(at),
            count,
        }
    }

    #[test]
    fn half_a_million_at_four_o_clock() {
        let lane = lane(100, 4, 50, None);
        let windows = lane.windows(DEFAULT_MARGIN);
        let feed = [group(0, 500_000, Some(3_600_000))];
        let forecast = forecast(&windows, &mut Taken::new(), &feed).unwrap();
        assert_eq!(forecast.count, 500_000);
        assert_eq!(
            forecast.last,
            Some(at(19_999_960)),
            "5 h 33 min at 25 a second"
        );
        assert_eq!(forecast.missed, 500_000 - 90_000 - 1);
        let enough = enough(&lane, DEFAULT_MARGIN, &Taken::new(), &feed).unwrap();
        assert_eq!(enough.max_per_second, 142, "500,000 / 3,600 / 0.98");
    }

    #[test]
    fn no_limit_is_enough_for_a_deadline_that_has_passed() {
        let lane = lane(100, 4, 50, None);
        let feed = [group(0, 10, Some(-1))];
        assert_eq!(enough(&lane, DEFAULT_MARGIN, &Taken::new(), &feed), None);
    }

    proptest! {
        /// Forecast equals what assignment then does, with calendars too.
        #[test]
        fn forecast_equals_assignment(
            per_window in 1_u32..40, secs in 1_u32..8, hard in 1_u32..60, with_calendar in any::<bool>(),
            groups in prop::collection::vec((0_i64..200_000, 1_u64..60, prop::option::of(0_i64..400_000)), 1..12),
        ) {
            let lane = lane(per_window, secs, hard, with_calendar.then_some("03:20-03:22"));
            let windows = lane.windows(DEFAULT_MARGIN);
            let groups: Vec<Group> = groups.into_iter().map(|(ms, n, d)| group(ms, n, d)).collect();
            let mut counters = Taken::new();
            let mut expected = Forecast::default();
            for group in &groups {
                for _ in 0..group.count {
                    let Ok(place) = assign(&windows, Spread::Even, group.from, 0, &mut counters);
                    let at = place.unwrap().scheduled;
                    expected.add(1, at, at, u64::from(group.deadline.is_some_and(|d| at > d)));
                }
            }
            let mut taken = Taken::new();
            prop_assert_eq!(forecast(&windows, &mut taken, &groups), Some(expected));
            let used = |t: &Taken| t.iter().map(|(w, c)| (*w, c.used)).filter(|(_, n)| *n > 0).collect::<Vec<_>>();
            prop_assert_eq!(used(&taken), used(&counters));
        }

        /// No window above its capacity, no slot early, none in closed time.
        #[test]
        fn slots_keep_to_the_calendar(
            per_window in 1_u32..40, secs in 1_u32..60, hard in 1_u32..60, jitter in any::<bool>(),
            requests in prop::collection::vec((0_i64..400_000_000, any::<u32>()), 1..100),
        ) {
            let lane = lane(per_window, secs, hard, Some("09:00-09:01"));
            let windows = lane.windows(DEFAULT_MARGIN);
            let spread = if jitter { Spread::Jitter } else { Spread::Even };
            let mut counters = Taken::new();
            for (ms, random) in requests {
                let Ok(place) = assign(&windows, spread, at(ms), random, &mut counters);
                let place = place.unwrap();
                prop_assert!(place.scheduled >= at(ms));
                let open = lane.calendar.as_ref().unwrap().stretch_from(place.scheduled).unwrap();
                prop_assert!(open.from <= place.scheduled, "{} is closed", place.scheduled);
                prop_assert!(counters[&place.window].used <= windows.capacity(place.window, place.window));
            }
        }
    }
}
