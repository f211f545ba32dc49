//! What a replan does to a queue: who moves, when it ends, which deadlines are won or lost.

use tollgate_core::Timestamp;
use tollgate_core::ports::Waiting;

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
}

impl Shift {
    pub(crate) fn add(&mut self, item: &Waiting, to: Option<Timestamp>) {
        self.waiting += 1;
        let Some(to) = to else {
            self.never += 1;
            return;
        };
        self.earlier += u64::from(to < item.due);
        self.later += u64::from(to > item.due);
        self.finish_before = self.finish_before.max(Some(item.due));
        self.finish_after = self.finish_after.max(Some(to));
        if let Some(deadline) = item.deadline {
            let (before, after) = (item.due > deadline, to > deadline);
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
