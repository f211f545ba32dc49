//! Which flows are in memory and how many more may come. Pure bookkeeping: it loads nothing.

use std::collections::{HashMap, HashSet};

use tollgate_core::id::FlowId;

pub(crate) struct Room {
    max_live: usize,
    live: HashSet<FlowId>,
    /// Children whose parents wait here, with the number of waits.
    awaited: HashMap<FlowId, u32>,
    /// The awaited ones that are not live: they may come even when there is no room.
    wanted: HashSet<FlowId>,
    /// Live flows whose next run is being written: the store may hand it out before the old run
    /// has heard that it is written.
    going_on: HashSet<FlowId>,
}

/// What became of a flow that was handed out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Loaded {
    Fresh,
    /// A parent waits for it.
    Wanted,
    /// It is live already: the store handed it out twice.
    Twice,
}

impl Room {
    pub(crate) fn new(max_live: u32) -> Self {
        Self {
            max_live: usize::try_from(max_live).unwrap_or(usize::MAX),
            live: HashSet::new(),
            awaited: HashMap::new(),
            wanted: HashSet::new(),
            going_on: HashSet::new(),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.live.len() >= self.max_live
    }

    /// How many flows may be loaded. When waiting parents fill the room, still as many as they
    /// wait for: the store hands out children first, so those are what comes.
    pub(crate) fn free(&self) -> usize {
        let free = self.max_live.saturating_sub(self.live.len());
        free.max(self.wanted.len())
    }

    pub(crate) fn load(&mut self, id: &FlowId) -> Loaded {
        if !self.live.insert(id.clone()) && !self.going_on.remove(id) {
            return Loaded::Twice;
        }
        if self.wanted.remove(id) {
            Loaded::Wanted
        } else {
            Loaded::Fresh
        }
    }

    /// Another run of this flow is about to be written; from now on it may be handed out.
    pub(crate) fn go_on(&mut self, id: &FlowId) {
        self.going_on.insert(id.clone());
    }

    /// The run is over; `again` when the flow goes on with another run.
    pub(crate) fn unload(&mut self, id: &FlowId, again: bool) {
        if !self.going_on.remove(id) && again {
            // The next run has come already, and the place is its own.
            return;
        }
        self.live.remove(id);
        if again && self.awaited.contains_key(id) {
            self.wanted.insert(id.clone());
        }
    }

    pub(crate) fn begin_wait(&mut self, child: &FlowId) {
        *self.awaited.entry(child.clone()).or_insert(0) += 1;
        if !self.live.contains(child) {
            self.wanted.insert(child.clone());
        }
    }

    pub(crate) fn end_wait(&mut self, child: &FlowId) {
        if let Some(waits) = self.awaited.get_mut(child) {
            *waits -= 1;
            if *waits == 0 {
                self.awaited.remove(child);
                self.wanted.remove(child);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> FlowId {
        FlowId::new(name)
    }

    #[test]
    fn a_full_room_is_open_to_awaited_children_only() {
        let mut room = Room::new(2);
        assert_eq!(room.load(&id("p1")), Loaded::Fresh);
        assert_eq!(room.load(&id("p2")), Loaded::Fresh);
        assert_eq!((room.is_full(), room.free()), (true, 0));
        room.begin_wait(&id("c1"));
        room.begin_wait(&id("c1"));
        room.begin_wait(&id("c2"));
        assert_eq!(room.free(), 2);
        assert_eq!(room.load(&id("c1")), Loaded::Wanted);
        assert_eq!(room.free(), 1);
        room.end_wait(&id("c2"));
        assert_eq!(room.free(), 0);
    }

    #[test]
    fn an_awaited_child_that_goes_on_anew_is_wanted_again() {
        let mut room = Room::new(1);
        room.load(&id("p"));
        room.begin_wait(&id("c"));
        room.load(&id("c"));
        room.go_on(&id("c"));
        room.unload(&id("c"), true);
        assert_eq!(room.free(), 1);
        room.load(&id("c"));
        room.unload(&id("c"), false);
        room.end_wait(&id("c"));
        assert_eq!(room.free(), 0);
        room.unload(&id("p"), false);
        assert_eq!(room.free(), 1);
    }

    #[test]
    fn a_next_run_may_come_before_the_old_one_has_left() {
        let mut room = Room::new(1);
        room.load(&id("a"));
        room.go_on(&id("a"));
        assert_eq!(room.load(&id("a")), Loaded::Fresh);
        room.unload(&id("a"), true);
        assert_eq!((room.free(), room.load(&id("a"))), (0, Loaded::Twice));
        room.unload(&id("a"), false);
        assert_eq!(room.free(), 1);
    }

    #[test]
    fn a_flow_handed_out_twice_is_noticed() {
        let mut room = Room::new(2);
        room.load(&id("a"));
        assert_eq!(room.load(&id("a")), Loaded::Twice);
    }
}
