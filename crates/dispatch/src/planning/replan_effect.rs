//! What a replan does to a queue: who moves, when it ends, which deadlines are won or lost.

use std::time::Duration;

use rust_decimal::Decimal;
use tollgate_core::Timestamp;
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::{UnsentOnLane, Waiting};
use tollgate_core::timetable::{Load, Outset, Timetable};

/// What placing a queue anew does to it, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReplanEffect {
    pub waiting: u64,
    pub earlier: u64,
    pub later: u64,
    pub finish_before: Option<Timestamp>,
    pub finish_after: Option<Timestamp>,
    pub deadlines_won: u64,
    pub deadlines_lost: u64,
    pub missed_before: u64,
    pub missed_after: u64,
    /// The lane never opens for them; they keep their slots.
    pub never: u64,
    /// Those for which no time can be told.
    pub untold: u64,
    pub with_deadline: u64,
}

/// An item that waits, and where a replan puts it; `None` if its lane never opens for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) from: Timestamp,
    pub(crate) to: Option<Timestamp>,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) hold_after: Option<Timestamp>,
}

impl Moved {
    pub(crate) fn new(item: &Waiting, to: Option<Timestamp>) -> Self {
        Self {
            from: item.due,
            to,
            deadline: item.deadline,
            hold_after: item.hold_after,
        }
    }
}

/// A lane that is replanned, before and after it, and how its gate stands.
pub(crate) struct Plans<'a> {
    pub(crate) before: &'a UnsentOnLane,
    pub(crate) after: &'a LaneInForce,
    pub(crate) margin: Decimal,
    /// From slot to turn.
    pub(crate) way: Duration,
}

impl Plans<'_> {
    /// What the replan does, or would do: both plans are played at the gate, behind what is under way.
    pub(crate) fn effect(&self, moved: &[Moved]) -> ReplanEffect {
        let before = moved.iter().map(|it| Load::item(it.from, it.hold_after));
        let before = self.table(&self.before.lane, before);
        let after = moved
            .iter()
            .filter_map(|it| Some(Load::item(it.to?, it.hold_after)));
        let after = self.table(self.after, after);
        let mut effect = ReplanEffect::default();
        for it in moved {
            let was = Sent::of(&before, it.from, it.deadline);
            let is = it.to.map(|due| Sent::of(&after, due, it.deadline));
            effect.add(it, was, is);
        }
        effect
    }

    fn table(&self, lane: &LaneInForce, items: impl Iterator<Item = Load>) -> Timetable {
        let under_way = self.before.near.iter().filter(|it| !it.is_ready);
        let under_way = under_way.map(|it| Load::item(it.due, it.hold_after));
        Timetable::of(Outset {
            lane,
            margin: self.margin,
            now: self.before.now,
            last_turn: self.before.last_turn,
            way: self.way,
            loads: under_way.chain(items).collect(),
        })
    }
}

/// When an item is sent, and whether that is in time; `None` if no time can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sent {
    at: Option<Timestamp>,
    meets: Option<bool>,
}

impl Sent {
    fn of(table: &Timetable, due: Timestamp, deadline: Option<Timestamp>) -> Self {
        let meets = deadline.and_then(|deadline| table.meets(due, deadline).ok());
        Self {
            at: table.at(due).ok(),
            meets,
        }
    }
}

impl ReplanEffect {
    fn add(&mut self, item: &Moved, before: Sent, after: Option<Sent>) {
        self.waiting += 1;
        self.with_deadline += u64::from(item.deadline.is_some());
        self.finish_before = self.finish_before.max(before.at);
        let Some(after) = after else {
            self.never += 1;
            return;
        };
        let Some(to) = after.at else {
            self.untold += 1;
            return;
        };
        self.earlier += u64::from(before.at.is_none_or(|before| to < before));
        self.later += u64::from(before.at.is_some_and(|before| to > before));
        self.finish_after = self.finish_after.max(Some(to));
        let (before, after) = (before.meets == Some(false), after.meets == Some(false));
        self.missed_before += u64::from(before);
        self.missed_after += u64::from(after);
        self.deadlines_won += u64::from(before && !after);
        self.deadlines_lost += u64::from(!before && after);
    }
}

impl std::fmt::Display for ReplanEffect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let finish = self.finish_after.map_or("-".into(), |t| t.to_string());
        write!(
            f,
            "{} waiting, {} earlier, {} later, finish {finish}, deadlines newly met {}, newly missed {}",
            self.waiting, self.earlier, self.later, self.deadlines_won, self.deadlines_lost
        )
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::id::LaneName;
    use tollgate_core::lane::{Lane, LaneChange};
    use tollgate_core::ports::Unsent;

    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap()
    }

    /// One a second, at the gate and in the plan.
    fn unsent(near: Vec<Unsent>) -> UnsentOnLane {
        let change = LaneChange {
            max_per_window: Some(1),
            window_size_secs: Some(1),
            max_per_second: Some(1.into()),
            ..LaneChange::default()
        };
        UnsentOnLane {
            now: at(0),
            lane: LaneInForce {
                name: LaneName::new("bank"),
                version: 1,
                lane: Lane::changed(None, change).unwrap(),
                calendar: None,
                effective_at: at(0),
                closed_until: None,
                closed_by: None,
                storm: None,
            },
            last_turn: None,
            near,
            far: None,
        }
    }

    fn effect(found: &UnsentOnLane, moved: &[Moved]) -> ReplanEffect {
        let plans = Plans {
            before: found,
            after: &found.lane,
            margin: Decimal::ZERO,
            way: Duration::from_millis(20),
        };
        plans.effect(moved)
    }

    /// With a deadline at 1000.
    fn moved(from: i64, to: i64) -> Moved {
        Moved {
            from: at(from),
            to: Some(at(to)),
            deadline: Some(at(1000)),
            hold_after: None,
        }
    }

    #[test]
    fn a_slot_whose_turn_comes_after_the_deadline_misses_it() {
        let missed = |from, to| {
            let effect = effect(&unsent(vec![]), &[moved(from, to)]);
            (effect.missed_before, effect.missed_after)
        };
        assert_eq!(missed(980, 990), (0, 1), "the slot alone would be in time");
        assert_eq!(missed(981, 980), (1, 0));
        assert_eq!(missed(2000, 0), (1, 0));
    }

    #[test]
    fn a_slot_that_is_in_time_is_missed_behind_what_is_under_way() {
        let under_way = Unsent {
            item_type: tollgate_core::id::ItemType::new("PAYMENT"),
            due: at(0),
            hold_after: None,
            is_ready: false,
        };
        let busy = unsent(vec![under_way.clone(), under_way]);
        let told = effect(&busy, &[moved(900, 500)]);
        assert_eq!((told.missed_before, told.missed_after), (1, 1), "{told}");
        assert_eq!(told.finish_after, Some(at(2000)));
    }

    #[test]
    fn what_is_held_instead_takes_nobodys_turn() {
        let held = Moved {
            hold_after: Some(at(1000)),
            ..moved(1500, 1500)
        };
        let last = Moved {
            deadline: Some(at(1700)),
            ..moved(1600, 1600)
        };
        let told = effect(&unsent(vec![]), &[held, last]);
        assert_eq!((told.missed_before, told.missed_after), (1, 1), "{told}");
    }

    #[test]
    fn a_replan_of_a_paused_lane_tells_no_time_and_no_verdict() {
        let mut found = unsent(vec![]);
        found.lane.lane.pause = Some(tollgate_core::lane::Pause::now("ann", "lunch"));
        let told = effect(&found, &[moved(2000, 0)]);
        assert_eq!((told.untold, told.missed_after), (1, 0), "{told}");
    }
}
