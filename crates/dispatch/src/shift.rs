//! What a replan does to a queue: who moves, when it ends, which deadlines are won or lost.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::ports::Waiting;
use tollgate_core::timetable::Timetable;

/// What placing a queue anew does to it, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shift {
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
    /// Of a preview: those for which no time could be told then.
    pub untold: u64,
    pub with_deadline: u64,
}

/// When an item is sent, and whether that is in time; `None` if no time can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) at: Option<Timestamp>,
    pub(crate) meets: Option<bool>,
}

impl Sent {
    pub(crate) fn of(table: &Timetable, due: Timestamp, deadline: Option<Timestamp>) -> Self {
        let meets = deadline.and_then(|deadline| table.meets(due, deadline).ok());
        Self {
            at: table.at(due).ok(),
            meets,
        }
    }
}

impl Shift {
    /// What a replan would do to an item, by the timetables before and after it.
    pub(crate) fn foresee(&mut self, item: &Waiting, before: Sent, after: Option<Sent>) {
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

    /// What a replan has done to an item. `way`: from slot to turn.
    pub(crate) fn add(&mut self, item: &Waiting, to: Option<Timestamp>, way: Duration) {
        self.waiting += 1;
        self.with_deadline += u64::from(item.deadline.is_some());
        let Some(to) = to else {
            self.never += 1;
            return;
        };
        self.earlier += u64::from(to < item.due);
        self.later += u64::from(to > item.due);
        self.finish_before = self.finish_before.max(Some(item.due));
        self.finish_after = self.finish_after.max(Some(to));
        if let Some(deadline) = item.deadline {
            let (before, after) = (item.due + way > deadline, to + way > deadline);
            self.missed_before += u64::from(before);
            self.missed_after += u64::from(after);
            self.deadlines_won += u64::from(before && !after);
            self.deadlines_lost += u64::from(!before && after);
        }
    }
}

impl std::fmt::Display for Shift {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let finish = self.finish_after.map_or("-".into(), |t| t.to_string());
        write!(
            f,
            "{} waiting, {} earlier, {} later, finish {finish}, deadlines won {}, lost {}",
            self.waiting, self.earlier, self.later, self.deadlines_won, self.deadlines_lost
        )
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::id::ItemId;

    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap()
    }

    /// From `due` to `to`, with a deadline at 1000, over a way of 20 ms: was it late, and is it?
    fn moved(due: i64, to: i64) -> (u64, u64) {
        let item = Waiting {
            id: ItemId::new("p"),
            due: at(due),
            window: at(0),
            requested: at(0),
            deadline: Some(at(1000)),
        };
        let mut shift = Shift::default();
        shift.add(&item, Some(at(to)), Duration::from_millis(20));
        (shift.missed_before, shift.missed_after)
    }

    #[test]
    fn a_slot_whose_turn_comes_after_the_deadline_misses_it() {
        assert_eq!(moved(980, 990), (0, 1), "the slot alone would be in time");
        assert_eq!(moved(981, 980), (1, 0));
        assert_eq!(moved(2000, 0), (1, 0));
    }
}
