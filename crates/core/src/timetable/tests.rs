//! What the timetable says, beside what the gate does: played with the gate's own arithmetic.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::calendar::{Calendar, CalendarText};
use crate::gate::{DEFAULT_MARGIN, Moment, Turns, ask_again_in};
use crate::id::{LaneName, StormId};
use crate::lane::{Lane, LaneChange, Pause};
use crate::lane_in_force::LaneState;
use crate::ports::StormPause;

/// A Monday, at noon in New York.
fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_800_032_400_000 + ms).unwrap()
}

fn lane(per_second: u32, window_secs: u32, pause: Option<Pause>) -> LaneInForce {
    let change = LaneChange {
        max_per_window: Some(per_second * window_secs),
        window_size_secs: Some(window_secs),
        max_per_second: Some(per_second.into()),
        pause: Some(pause),
        ..LaneChange::default()
    };
    LaneInForce {
        name: LaneName::new("bank"),
        version: 1,
        lane: Lane::changed(None, change).unwrap(),
        calendar: None,
        effective_at: at(0),
        closed_until: None,
        closed_by: None,
        storm: None,
    }
}

fn pause(from: Option<i64>, until: Option<i64>) -> Pause {
    Pause {
        from: from.map(at),
        until: until.map(at),
        ..Pause::now("ann", "lunch")
    }
}

fn outset(lane: &LaneInForce, loads: Vec<Load>) -> Outset<'_> {
    Outset {
        lane,
        margin: Decimal::ZERO,
        now: at(0),
        last_turn: None,
        way: Duration::from_millis(20),
        loads,
    }
}

/// As slots lie at so many a second.
fn slots(count: i64, per_second: i64) -> Vec<Load> {
    let slot = |n| Load::item(at(n * 1000 / per_second), None);
    (0..count).map(slot).collect()
}

fn seconds(time: Timestamp) -> f64 {
    time.duration_since(at(0)).as_secs_f64()
}

#[test]
fn what_waits_runs_at_its_slot_while_nothing_stands_in_its_way() {
    let lane = lane(50, 4, None);
    let table = Timetable::of(outset(&lane, slots(400, 25)));
    for load in slots(400, 25) {
        assert_eq!(table.at(load.from), Ok(load.from));
    }
    assert_eq!(table.drained(), Ok(Some(at(15_960))));
    assert_eq!(
        table.meets(at(4000), at(4020)),
        Ok(true),
        "the way is 20 ms"
    );
    assert_eq!(table.meets(at(4000), at(4019)), Ok(false));
}

#[test]
fn a_limit_lowered_after_slots_were_given_is_known() {
    let lane = lane(5, 4, None);
    let table = Timetable::of(outset(&lane, slots(400, 25)));
    let last = table.at(at(15_960)).unwrap();
    assert!(
        (seconds(last) - 79.8).abs() < 0.1,
        "400 at 5 a second: {last}"
    );
}

#[test]
fn an_open_ended_pause_leaves_no_time_and_no_verdict() {
    let lane = lane(50, 4, Some(pause(None, None)));
    let table = Timetable::of(outset(&lane, slots(10, 1)));
    let untold = table.at(at(3000)).unwrap_err();
    assert_eq!(untold.code, UntoldCode::LanePaused);
    assert!(untold.reason.contains("ann") && untold.reason.contains("lunch"));
    assert!(table.meets(at(3000), at(9_000_000)).is_err());
    assert!(table.drained().is_err());
    assert!(table.at(at(86_400_000)).is_err(), "later ones neither");
}

#[test]
fn a_refusal_storm_leaves_no_time_like_any_open_ended_pause() {
    let mut lane = lane(50, 4, None);
    lane.storm = Some(StormPause {
        id: StormId(3),
        reason: "all were refused".into(),
        since: at(-5000),
    });
    let table = Timetable::of(outset(&lane, slots(10, 1)));
    let untold = table.at(at(3000)).unwrap_err();
    assert_eq!(
        (untold.code, untold.since),
        (UntoldCode::LanePaused, at(-5000))
    );
    assert!(untold.reason.contains("refusal storm 3: all were refused"));
}

#[test]
fn a_pause_that_was_announced_moves_what_lies_behind_its_beginning_only() {
    let open_ended = lane(10, 4, Some(pause(Some(5000), None)));
    let table = Timetable::of(outset(&open_ended, slots(20, 2)));
    assert_eq!(table.at(at(4500)), Ok(at(4500)));
    assert!(table.at(at(5000)).is_err());
    let until = lane(10, 4, Some(pause(Some(5000), Some(60_000))));
    let table = Timetable::of(outset(&until, slots(20, 2)));
    assert_eq!(table.at(at(4500)), Ok(at(4500)));
    assert_eq!(table.at(at(5000)), Ok(at(60_000)));
    let last = table.at(at(9500)).unwrap();
    assert!((seconds(last) - 60.9).abs() < 0.05, "{last}");
}

#[test]
fn a_closed_lane_begins_when_it_opens_and_what_is_due_next_week_runs_next_week() {
    let mut lane = lane(10, 4, None);
    lane.closed_until = Some(at(30_000));
    let week = 7 * 86_400_000;
    let table = Timetable::of(outset(&lane, vec![Load::item(at(week), None)]));
    assert_eq!(table.drained(), Ok(Some(at(week))));
    assert_eq!(table.at(at(0)), Ok(at(30_000)));
    let nothing = Timetable::of(outset(&lane, vec![]));
    assert_eq!(nothing.drained(), Ok(None));
}

#[test]
fn what_is_held_takes_nobodys_turn() {
    let lane = lane(1, 4, None);
    let held = (0..10).map(|_| Load::item(at(0), Some(at(500))));
    let loads = held.chain([Load::item(at(1), None)]).collect();
    let table = Timetable::of(outset(&lane, loads));
    assert_eq!(table.at(at(1)), Ok(at(1000)), "one was sent, nine are held");
}

#[test]
fn a_busy_or_closed_lane_is_not_held_against_the_way() {
    let spacing = SignedDuration::from_millis(100);
    let least = Duration::from_millis(20);
    let sent = |slot, claimed, turn, before: Option<i64>| SentOnSlot {
        slot: at(slot),
        claimed_at: at(claimed),
        turn: at(turn),
        before: before.map(at),
    };
    let table = [
        (vec![], 20),
        (vec![sent(1000, -5000, 1300, None)], 300),
        (vec![sent(1000, -5000, 9110, Some(9000))], 20),
        (vec![sent(1000, 60_000, 60_250, None)], 250),
        (vec![sent(1000, 1200, 1350, None)], 350),
    ];
    for (sends, expected) in table {
        let way = way(&sends, spacing, least);
        assert_eq!(way, Duration::from_millis(expected), "{sends:?}");
    }
    let mostly = |slow: i64| {
        (0..1000).map(move |n| sent(n, -5000, n + if n < slow { 900 } else { 30 }, None))
    };
    assert_eq!(
        way(&mostly(10).collect::<Vec<_>>(), spacing, least),
        Duration::from_millis(30)
    );
    assert_eq!(
        way(&mostly(11).collect::<Vec<_>>(), spacing, least),
        Duration::from_millis(900)
    );
}

/// What became of one item at a gate that was played with the gate's own arithmetic.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    Sent(Timestamp),
    Held,
    Waits,
}

/// Asks the gate's own arithmetic for turns, step by step, as a lane's queue does.
fn play(
    outset: &Outset<'_>,
    dues: &[(Timestamp, Option<Timestamp>)],
    until: Timestamp,
) -> Vec<Fate> {
    let pace = outset.lane.lane.pace(outset.margin);
    let mut fates = vec![Fate::Waits; dues.len()];
    let (mut now, mut last_turn) = (outset.now, outset.last_turn);
    let mut order: Vec<usize> = (0..dues.len()).collect();
    order.sort_by_key(|n| dues[*n].0);
    while now < until {
        order.retain(|n| fates[*n] == Fate::Waits);
        let Some(next_due) = order.first().map(|n| dues[*n].0) else {
            break;
        };
        let closes_at = match outset.lane.state(now) {
            LaneState::Open { until } => until,
            LaneState::Closed {
                until: Some(opens), ..
            } => {
                now = opens;
                continue;
            }
            LaneState::Closed { until: None, .. } => break,
        };
        if next_due > now {
            now = next_due.min(closes_at);
            continue;
        }
        for n in &order {
            let hold = dues[*n].1;
            if dues[*n].0 <= now && hold.is_some_and(|hold| hold < now) {
                fates[*n] = Fate::Held;
            }
        }
        let asking: Vec<usize> = order
            .iter()
            .copied()
            .filter(|n| dues[*n].0 <= now && fates[*n] == Fate::Waits)
            .collect();
        let moment = Moment {
            last_turn,
            now,
            lead: Duration::from_millis(5),
            closes_at,
        };
        let mut turns = Turns::from(pace, moment);
        for n in asking {
            let (planned, hold) = dues[n];
            let Some(turn) = turns.offer(planned) else {
                continue;
            };
            if hold.is_some_and(|hold| turn > hold) {
                fates[n] = Fate::Held;
                continue;
            }
            turns.take(turn);
            fates[n] = Fate::Sent(turn);
            last_turn = Some(turn);
        }
        now += ask_again_in(pace, now, last_turn, None).max(Duration::from_millis(10));
    }
    fates
}

fn random_lane() -> impl Strategy<Value = LaneInForce> {
    let pauses = prop_oneof![
        3 => Just(None),
        1 => (1_i64..60_000).prop_map(|until| Some(pause(None, Some(until)))),
        1 => (1_i64..60_000, 1_i64..60_000)
            .prop_map(|(from, lasts)| Some(pause(Some(from), Some(from + lasts)))),
        1 => (1_i64..60_000).prop_map(|from| Some(pause(Some(from), None))),
        1 => Just(Some(pause(None, None))),
    ];
    let calendars = prop_oneof![
        2 => Just(None),
        1 => (0_u32..3, 1_u32..4).prop_map(|(from, lasts)| {
            let hours = vec![format!("12:{from:02}-12:{:02}", from + lasts)];
            let days = ["monday", "tuesday", "wednesday", "thursday", "friday"];
            let text = CalendarText {
                zone: "America/New_York".into(),
                weekly: Some(days.map(|day| (day.to_owned(), hours.clone())).into()),
                ..CalendarText::default()
            };
            Some(Arc::new(Calendar::read(&text).unwrap()))
        }),
    ];
    let closings = prop::option::weighted(0.2, 1_i64..30_000);
    (1_u32..60, 1_u32..8, pauses, calendars, closings).prop_map(
        |(per_second, window, pause, calendar, closed)| LaneInForce {
            calendar,
            closed_until: closed.map(at),
            ..lane(per_second, window, pause)
        },
    )
}

/// When each is due, its deadline, and whether it is held rather than late.
type Wanted = (i64, Option<i64>, bool);

fn random_items() -> impl Strategy<Value = Vec<Wanted>> {
    let asked = (prop::option::of(0_i64..150_000), any::<bool>());
    let all = prop::collection::btree_map(-60_000_i64..90_000, asked, 1..400);
    all.prop_map(|all| {
        all.into_iter()
            .map(|(due, (deadline, hold))| (due, deadline, hold))
            .collect()
    })
}

/// What is said about items: when each is sent, and whether that is in time; `None` if no time can be told.
trait Says {
    fn at(&self, due: Timestamp) -> Option<Timestamp>;
    fn meets(&self, due: Timestamp, deadline: Timestamp) -> Option<bool>;
}

impl Says for Timetable {
    fn at(&self, due: Timestamp) -> Option<Timestamp> {
        self.at(due).ok()
    }
    fn meets(&self, due: Timestamp, deadline: Timestamp) -> Option<bool> {
        self.meets(due, deadline).ok()
    }
}

/// Each estimate is within its tolerance of what the gate does, what is said to be in time is, and
/// the number of late ones is the gate's.
fn judge<S: Says>(
    lane: &LaneInForce,
    items: &[Wanted],
    foresee: impl FnOnce(Outset<'_>) -> S,
) -> Result<(), TestCaseError> {
    let dues: Vec<_> = items
        .iter()
        .map(|(due, deadline, hold)| (at(*due), deadline.filter(|_| *hold).map(at)))
        .collect();
    let loads = dues
        .iter()
        .map(|(due, hold)| Load::item(*due, *hold))
        .collect();
    let outset = Outset {
        margin: DEFAULT_MARGIN,
        ..outset(lane, loads)
    };
    let tolerance = SignedDuration::try_from(lane.lane.window_size().max(LEAST_TOLERANCE)).unwrap();
    let fates = play(&outset, &dues, at(9 * 86_400_000));
    let told = foresee(outset);
    let spacing = lane.lane.pace(DEFAULT_MARGIN).spacing();
    let (mut told_late, mut were_late, mut close) = (0, 0, 0);
    for ((item, (due, _)), fate) in items.iter().zip(&dues).zip(&fates) {
        // What comes to the gate when the lane is about to close may slip through, or not.
        let soon = |from: Timestamp| from.max(at(0)) + Duration::from_millis(60) + spacing;
        let closes = |from: Timestamp| matches!(lane.state(from.max(at(0))), LaneState::Open { until } if until < soon(from));
        let came = match fate {
            Fate::Sent(turn) => *turn,
            Fate::Held | Fate::Waits => *due,
        };
        if closes(*due) || closes(came) {
            continue;
        }
        let estimate = told.at(*due);
        match (estimate, fate) {
            (Some(estimate), Fate::Sent(turn)) => {
                let off = turn.duration_since(estimate).abs();
                prop_assert!(off <= tolerance, "{estimate} {turn}");
            }
            (Some(_), Fate::Held) | (None, Fate::Waits | Fate::Held) => {}
            (told, fate) => prop_assert!(false, "{told:?} {fate:?}"),
        }
        let (Some(deadline), Some(estimate)) = (item.1.map(at), estimate) else {
            continue;
        };
        let is_late = !matches!(fate, Fate::Sent(turn) if *turn <= deadline);
        let meets = told.meets(*due, deadline).unwrap();
        prop_assert!(
            !(meets && is_late),
            "told {estimate}, deadline {deadline}: {fate:?}"
        );
        told_late += u32::from(!meets);
        were_late += u32::from(is_late);
        // Within the way to its turn nobody can say, and it counts as late.
        close += u32::from(!meets && !is_late);
        if !meets && !is_late {
            let left = deadline.duration_since(estimate);
            prop_assert!(
                left < spacing * 2 + SignedDuration::from_millis(40),
                "{left:?} left, told late"
            );
        }
    }
    prop_assert_eq!(told_late, were_late + close);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_timetable_says_what_the_gate_does(lane in random_lane(), items in random_items()) {
        judge(&lane, &items, Timetable::of)?;
    }

    /// With windows whose items are only counted it is as good as its tolerance says.
    #[test]
    fn counted_windows_are_as_good_as_the_tolerance(
        per_second in 2_u32..60, lowered in 1_u32..60, window in 1_u32..8, count in 1_i64..400,
    ) {
        let planned = lane(per_second, window, None);
        let windows = planned.windows(Decimal::ZERO);
        let later = windows.end_of(windows.start_of(at(0))).duration_since(at(0));
        let dues: Vec<(Timestamp, Option<Timestamp>)> =
            slots(count, i64::from(per_second)).iter().map(|load| (load.from + later, None)).collect();
        let mut now_lane = planned.clone();
        now_lane.lane.max_per_second = lowered.min(per_second).into();
        let mut counted = std::collections::BTreeMap::new();
        for (due, _) in &dues {
            *counted.entry(windows.start_of(*due)).or_insert(0) += 1;
        }
        let loads = counted.into_iter().map(|(start, count)| {
            Load::window(&now_lane.lane, start, count)
        }).collect();
        let outset = outset(&now_lane, loads);
        let table = Timetable::of(outset.clone());
        for ((due, _), fate) in dues.iter().zip(play(&outset, &dues, at(86_400_000))) {
            let Fate::Sent(turn) = fate else { panic!("{fate:?}") };
            let off = turn.duration_since(table.at(*due).unwrap()).abs();
            let allowed = SignedDuration::try_from(table.tolerance).unwrap();
            prop_assert!(off <= allowed, "{off:?} {due}");
        }
    }
}

mod mutants;
