//! Slot placement: the first window from the requested time with room gets the item.
//!
//! Full windows point onward, and the pointers are shortened as they are followed, so that the
//! millionth item for one instant costs what the first did. Where the counters live is the
//! store's business ([`Counters`]).

use std::collections::BTreeMap;

use crate::Timestamp;
use crate::id::ItemId;
use crate::lane::Spread;
use crate::window::Windows;

/// One window's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counter {
    pub used: u32,
    /// For a full window: a later one that may have room. Never skips a window with room.
    pub next_open: Option<Timestamp>,
}

/// A lane's window counters.
pub trait Counters {
    type Error;
    fn get(&mut self, window: Timestamp) -> Result<Counter, Self::Error>;
    fn set(&mut self, window: Timestamp, counter: Counter);
}

/// Where an item was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub window: Timestamp,
    pub scheduled: Timestamp,
}

/// Gives one item its place, at or after `from`; `None` if the lane's time never opens again.
/// `random` is uniform in `0..u32::MAX` and only used by [`Spread::Jitter`].
pub fn assign<C: Counters>(
    windows: &Windows,
    spread: Spread,
    from: Timestamp,
    random: u32,
    counters: &mut C,
) -> Result<Option<Place>, C::Error> {
    let mut passed: Vec<Timestamp> = Vec::new();
    let mut window = windows.start_of(from);
    loop {
        // Closed time is passed in one step, however long it is.
        let Some(opens) = windows.opens_at(from.max(window)) else {
            return Ok(None);
        };
        window = windows.start_of(opens);
        let counter = counters.get(window)?;
        let open = windows.open_part(window, from.max(window));
        if counter.used < open.capacity {
            let filled = Counter {
                used: counter.used + 1,
                ..counter
            };
            counters.set(window, filled);
            shorten(counters, &passed, window)?;
            let part = match spread {
                Spread::Even => (counter.used, open.capacity),
                Spread::Jitter => (random, u32::MAX),
            };
            let scheduled = open.moment(part);
            return Ok(scheduled.map(|scheduled| Place { window, scheduled }));
        }
        // Only a window that is full from its very start may be skipped by others.
        if counter.used >= windows.capacity(window, window) {
            passed.push(window);
            window = counter.next_open.unwrap_or_else(|| windows.end_of(window));
        } else {
            window = windows.end_of(window);
        }
    }
}

/// As good as random, and the same for one item every time: whoever is placed anew in the same
/// window lies where it lay.
pub fn steady_random(id: &ItemId) -> u32 {
    let mixed = id
        .as_str()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    // The last bytes have only reached the lower bits so far.
    let mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    u32::try_from(mixed >> 32).unwrap_or(0)
}

/// Lets every full window on the way point straight to where there was room.
fn shorten<C: Counters>(
    counters: &mut C,
    passed: &[Timestamp],
    target: Timestamp,
) -> Result<(), C::Error> {
    for window in passed {
        let counter = counters.get(*window)?;
        if counter.next_open != Some(target) {
            counters.set(
                *window,
                Counter {
                    next_open: Some(target),
                    ..counter
                },
            );
        }
    }
    Ok(())
}

/// Counters in memory: for forecasts and tests.
impl Counters for BTreeMap<Timestamp, Counter> {
    type Error = std::convert::Infallible;
    fn get(&mut self, window: Timestamp) -> Result<Counter, Self::Error> {
        Ok(BTreeMap::get(self, &window).copied().unwrap_or_default())
    }
    fn set(&mut self, window: Timestamp, counter: Counter) {
        self.insert(window, counter);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gate::DEFAULT_MARGIN;
    use crate::lane::{Lane, LaneChange};
    use crate::open_time::OpenTime;

    fn windows(per_window: u32, secs: u32, per_second: Option<i64>) -> Windows {
        let change = LaneChange {
            max_per_window: Some(per_window),
            window_size_secs: Some(secs),
            max_per_second: per_second.map(Into::into),
            ..LaneChange::default()
        };
        Windows::of(
            &Lane::changed(None, change).unwrap(),
            DEFAULT_MARGIN,
            OpenTime::default(),
        )
    }
    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap()
    }
    fn place(w: &Windows, counters: &mut BTreeMap<Timestamp, Counter>, from: Timestamp) -> Place {
        let Ok(place) = assign(w, Spread::Even, from, 0, counters);
        place.unwrap()
    }

    #[test]
    fn an_item_has_a_steady_place_as_good_as_random() {
        let ids = (0..1000).map(|n| ItemId::new(format!("p{n:05}")));
        let randoms: Vec<u32> = ids.map(|id| steady_random(&id)).collect();
        for part in 0..10_u32 {
            let from = part * (u32::MAX / 10);
            let there = randoms
                .iter()
                .filter(|r| (from..from + u32::MAX / 10).contains(r));
            let there = there.count();
            assert!((60..140).contains(&there), "{there} of 1000 in part {part}");
        }
        assert_eq!(randoms[7], steady_random(&ItemId::new("p00007")));
    }

    #[test]
    fn a_storm_for_one_instant_fills_window_after_window_evenly() {
        let (w, mut counters) = (windows(100, 4, None), BTreeMap::new());
        let places: Vec<_> = (0..1000).map(|_| place(&w, &mut counters, at(0))).collect();
        assert_eq!(places[0].scheduled, at(0));
        assert_eq!(places[1].scheduled, at(40));
        assert_eq!(places[999].window, at(36_000));
        assert!(places.is_sorted_by_key(|p| p.scheduled));
    }

    #[test]
    fn the_plan_is_never_better_than_the_gate_allows() {
        let (w, mut counters) = (windows(200, 4, Some(50)), BTreeMap::new());
        for _ in 0..1000 {
            place(&w, &mut counters, at(0));
        }
        assert!(counters.values().all(|c| c.used <= 196), "{counters:?}");
    }

    #[test]
    fn a_late_request_within_a_window_counts_only_what_lies_ahead() {
        let (w, mut counters) = (windows(100, 4, Some(50)), BTreeMap::new());
        let places: Vec<_> = (0..10)
            .map(|_| place(&w, &mut counters, at(3900)))
            .collect();
        let here = places.iter().filter(|p| p.window == at(0)).count();
        assert!(
            (4..=5).contains(&here),
            "100 ms hold 4 or 5 turns, not {here}"
        );
        assert!(places.iter().all(|p| p.scheduled >= at(3900)));
    }

    #[test]
    fn increase_sees_occupancy_and_decrease_treats_fuller_windows_as_full() {
        let mut counters = BTreeMap::from([(
            at(0),
            Counter {
                used: 80,
                next_open: None,
            },
        )]);
        let raised = windows(200, 4, Some(100));
        let taken = (0..200).map(|_| place(&raised, &mut counters, at(0)));
        assert_eq!(taken.filter(|p| p.window == at(0)).count(), 120);
        let mut counters = BTreeMap::from([(
            at(0),
            Counter {
                used: 80,
                next_open: None,
            },
        )]);
        let lowered = windows(50, 4, None);
        assert_eq!(place(&lowered, &mut counters, at(0)).window, at(4000));
    }

    proptest! {
        #[test]
        fn no_window_above_capacity_no_slot_early_no_gap_while_there_was_room(
            per_window in 1_u32..60, secs in 1_u32..8, hard in 1_i64..80,
            jitter in any::<bool>(),
            requests in prop::collection::vec((0_i64..60_000, any::<u32>()), 1..400),
        ) {
            let w = windows(per_window, secs, Some(hard));
            let spread = if jitter { Spread::Jitter } else { Spread::Even };
            let mut counters: BTreeMap<Timestamp, Counter> = BTreeMap::new();
            for (ms, random) in requests {
                let before = counters.clone();
                let from = at(ms);
                let Ok(p) = assign(&w, spread, from, random, &mut counters);
                let p = p.unwrap();
                prop_assert!(p.scheduled >= from && p.scheduled >= p.window);
                prop_assert!(p.scheduled <= w.end_of(p.window));
                prop_assert!(counters[&p.window].used <= w.capacity(p.window, p.window));
                let mut earlier = w.start_of(from);
                while earlier < p.window {
                    let used = before.get(&earlier).map_or(0, |c| c.used);
                    prop_assert!(used >= w.capacity(earlier, from.max(earlier)), "gap at {earlier}");
                    earlier = w.end_of(earlier);
                }
            }
        }
    }
}
