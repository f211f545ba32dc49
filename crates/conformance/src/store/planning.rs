//! Short ways to calendars, waits and replans, for the cases about plans. Only ports are used here.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_core::calendar::{Blackout, CalendarText};
use tollgate_core::gate::DEFAULT_MARGIN;
use tollgate_core::id::CalendarName;
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::{
    ActionResult, CalendarInForce, NewItem, QueuePosition, Replanned, StatusMove, Waiting,
    WindowUse,
};
use tollgate_core::window::Windows;
use tollgate_core::{SignedDuration, Timestamp};

use super::fixture::{Fixture, bank, ops, payment, payments};

pub(super) fn hours() -> CalendarName {
    CalendarName::new("hours")
}

/// Open all the time, but for these stretches.
pub(super) fn closed(stretches: &[(Timestamp, Timestamp)]) -> CalendarText {
    let blackout = |(from, to): &(Timestamp, Timestamp)| Blackout {
        from: *from,
        to: *to,
        reason: "maintenance".into(),
    };
    CalendarText {
        zone: "UTC".into(),
        blackouts: stretches.iter().map(blackout).collect(),
        ..CalendarText::default()
    }
}
pub(super) fn always() -> CalendarText {
    closed(&[])
}

pub(super) fn by_calendar(name: &CalendarName) -> LaneChange {
    LaneChange {
        calendar: Some(Some(name.clone())),
        ..LaneChange::default()
    }
}
pub(super) fn paused(from: Option<Timestamp>, until: Option<Timestamp>) -> LaneChange {
    let pause = Pause {
        from,
        until,
        ..Pause::now("ops", "the bank is down")
    };
    LaneChange {
        pause: Some(Some(pause)),
        ..LaneChange::default()
    }
}
pub(super) fn resumed() -> LaneChange {
    LaneChange {
        pause: Some(None),
        ..LaneChange::default()
    }
}

pub(super) fn secs(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

/// Rather HELD than sent after the deadline.
pub(super) fn or_hold(item: NewItem, deadline: Timestamp) -> NewItem {
    NewItem {
        deadline: Some(deadline),
        hold_if_late: true,
        ..item
    }
}

pub(super) fn withdrawn() -> StatusMove {
    StatusMove::new(&["SCHEDULED"], "CANCELLED")
}

/// How many items lie in each window, by their own slots.
pub(super) fn count_windows(starts: impl Iterator<Item = Timestamp>) -> Vec<WindowUse> {
    let mut counts: BTreeMap<Timestamp, u32> = BTreeMap::new();
    for start in starts {
        *counts.entry(start).or_default() += 1;
    }
    let one = |(start, used)| WindowUse { start, used };
    counts.into_iter().map(one).collect()
}

/// As good as random, by the seed that a failure tells.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 31)) % below
    }
    pub(super) fn seconds(&mut self, below: u64) -> SignedDuration {
        secs(i64::try_from(self.roll(below)).unwrap())
    }
    pub(super) fn one_of<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let n = self.roll(from.len().max(1) as u64);
        from.get(usize::try_from(n).unwrap())
    }
}

impl dyn Fixture + '_ {
    pub(super) async fn lane_in_force(&self) -> LaneInForce {
        self.store().lane(&bank()).await.unwrap().unwrap()
    }
    pub(super) async fn lane_windows(&self) -> Windows {
        self.lane_in_force().await.windows(DEFAULT_MARGIN)
    }
    pub(super) async fn put_calendar(&self, text: CalendarText) -> CalendarInForce {
        self.store()
            .put_calendar(&hours(), text, ops())
            .await
            .unwrap()
    }

    /// Moves the time on to this moment, which lies ahead.
    pub(super) async fn advance_to(&self, time: Timestamp) {
        let by = time.duration_since(self.now().await);
        self.advance(Duration::try_from(by).unwrap()).await;
    }

    /// All that waits, read in small pages.
    pub(super) async fn waiting(&self) -> Vec<Waiting> {
        let mut all: Vec<Waiting> = vec![];
        loop {
            let after = all.last().map(Waiting::spot);
            let page = self.store().waiting(&bank(), &payments(), after, 7).await;
            let page = page.unwrap();
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }

    pub(super) async fn begin_replan(&self) -> i64 {
        self.store().begin_replan(&bank(), ops()).await.unwrap()
    }
    pub(super) async fn replan_some(
        &self,
        generation: i64,
        after: Option<QueuePosition>,
        limit: u32,
    ) -> Vec<Replanned> {
        self.store()
            .replan_some(&bank(), &payments(), generation, after, limit)
            .await
            .unwrap()
    }
    /// The rest of a replan, and its end.
    pub(super) async fn finish_replan(&self, generation: i64) -> Vec<Replanned> {
        let mut all: Vec<Replanned> = vec![];
        loop {
            let after = all.last().map(|r| r.item.spot());
            let some = self.replan_some(generation, after, 9).await;
            if some.is_empty() {
                break;
            }
            all.extend(some);
            assert!(all.len() < 1000, "this replan has no end");
        }
        let (store, done) = (self.store(), "done".to_owned());
        let end = store.end_replan(&bank(), generation, done, ops()).await;
        end.unwrap();
        all
    }
    pub(super) async fn replan(&self) -> Vec<Replanned> {
        let generation = self.begin_replan().await;
        self.finish_replan(generation).await
    }

    pub(super) async fn cancel(&self, id: &str) -> ActionResult {
        let item = payment(id);
        self.store()
            .cancel(&item, withdrawn(), ops())
            .await
            .unwrap()
    }
    pub(super) async fn reschedule(&self, id: &str, to: Timestamp) -> ActionResult {
        let item = payment(id);
        self.store().reschedule(&item, to, ops()).await.unwrap()
    }

    /// The slots of these items, in their order.
    pub(super) async fn slots(&self, ids: &[&str]) -> Vec<Timestamp> {
        let mut slots = vec![];
        for id in ids {
            slots.push(self.view(&payment(id)).await.slot);
        }
        slots
    }

    /// The windows from a time on.
    pub(super) async fn windows_from(&self, from: Timestamp) -> Vec<WindowUse> {
        let windows = self.store().windows(&bank(), from, 100_000).await;
        windows.unwrap()
    }
}
