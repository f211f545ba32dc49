//! Forecasts that are wrong on purpose: each does not know one thing, and the property finds it out.

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;

/// Whether the property that the timetable keeps is broken by a forecast. The seed is always the same.
fn is_found_out<S: Says>(foresee: impl Fn(Outset<'_>) -> S) -> bool {
    let config = Config {
        cases: 300,
        failure_persistence: None,
        max_shrink_iters: 0,
        ..Config::default()
    };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let worlds = (random_lane(), random_items());
    let ran = runner.run(&worlds, |(lane, items)| judge(&lane, &items, &foresee));
    ran.is_err()
}

/// The timetable of a world that lacks something.
fn without(forget: impl Fn(&mut LaneInForce, &mut Outset<'_>)) -> impl Fn(Outset<'_>) -> Timetable {
    move |mut outset| {
        let mut lane = outset.lane.clone();
        forget(&mut lane, &mut outset);
        Timetable::of(Outset {
            lane: &lane,
            ..outset
        })
    }
}

#[test]
fn the_timetable_itself_is_not_found_out() {
    assert!(!is_found_out(Timetable::of));
}

#[test]
fn a_timetable_that_does_not_know_one_thing_is_found_out() {
    type Forget = fn(&mut LaneInForce, &mut Outset<'_>);
    let mutants: [(&str, Forget); 10] = [
        ("the limit in force", |lane, _| {
            lane.lane.max_per_second *= Decimal::TWO;
        }),
        ("the margin", |_, outset| outset.margin = Decimal::new(5, 1)),
        ("the pause", |lane, _| lane.lane.pause = None),
        ("that a pause has an end", |lane, _| {
            if let Some(pause) = &mut lane.lane.pause {
                pause.until = None;
            }
        }),
        ("that a pause begins later", |lane, _| {
            if let Some(pause) = &mut lane.lane.pause {
                pause.from = None;
            }
        }),
        ("the calendar", |lane, _| lane.calendar = None),
        ("that its downstream has closed it", |lane, _| {
            lane.closed_until = None;
        }),
        ("what is under way", |_, outset| {
            let now = outset.now;
            outset.loads.retain(|load| load.from >= now);
        }),
        ("that items are held", |_, outset| {
            outset.loads.iter_mut().for_each(|it| it.hold_after = None);
        }),
        ("the way to a turn", |_, outset| outset.way = Duration::ZERO),
    ];
    for (what, forget) in mutants {
        assert!(is_found_out(without(forget)), "{what} may be forgotten");
    }
}

/// What surfaces did before they asked the timetable.
struct BySlot;

impl Says for BySlot {
    fn at(&self, due: Timestamp) -> Option<Timestamp> {
        Some(due)
    }
    fn meets(&self, due: Timestamp, deadline: Timestamp) -> Option<bool> {
        Some(due <= deadline)
    }
}

/// The right time, and a verdict of its own.
struct OwnVerdict(Timetable);

impl Says for OwnVerdict {
    fn at(&self, due: Timestamp) -> Option<Timestamp> {
        self.0.at(due).ok()
    }
    fn meets(&self, due: Timestamp, deadline: Timestamp) -> Option<bool> {
        Some(due <= deadline)
    }
}

#[test]
fn a_surface_that_computes_its_own_is_found_out() {
    assert!(is_found_out(|_| BySlot));
    assert!(is_found_out(|outset| OwnVerdict(Timetable::of(outset))));
}
