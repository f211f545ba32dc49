//! Whatever is done to a lane, in whatever order: counters are slots, slots lie in open time and
//! never before their time, and nothing is lost.

use std::collections::BTreeSet;
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::item::QueueStatus;
use tollgate_core::lane::{LaneChange, Spread};
use tollgate_core::ports::{ActionResult, Claim, Claimed, ItemView, Recounted};
use tollgate_core::window::Windows;

use super::fixture::{Fixture, HOUR, bank, claim_all, new_item_at, payment, plan};
use super::planning::{Dice, by_calendar, closed, count_windows, hours, paused, resumed, secs};

const STEPS: usize = 45;
const MOST_ITEMS: usize = 70;

struct Walk<'f> {
    f: &'f dyn Fixture,
    dice: Dice,
    hour: Timestamp,
    ids: Vec<String>,
    claimed: Vec<Claimed>,
    cancelled: BTreeSet<String>,
    replan: Option<i64>,
}

pub async fn a_walk_keeps_every_promise_evenly_spread(f: &dyn Fixture) {
    walk(f, 1, Spread::Even).await;
}
pub async fn a_walk_keeps_every_promise_with_jitter(f: &dyn Fixture) {
    walk(f, 2, Spread::Jitter).await;
}
pub async fn another_walk_keeps_every_promise(f: &dyn Fixture) {
    walk(f, 3, Spread::Even).await;
}

async fn walk(f: &dyn Fixture, seed: u64, spread: Spread) {
    let lane = LaneChange {
        spread: Some(spread),
        max_per_second: Some(20.into()),
        ..plan(10, 4)
    };
    f.lane(lane).await;
    f.put_calendar(closed(&[])).await;
    f.lane(by_calendar(&hours())).await;
    let mut walk = Walk {
        f,
        dice: Dice(seed),
        hour: f.next_hour().await,
        ids: vec![],
        claimed: vec![],
        cancelled: BTreeSet::new(),
        replan: None,
    };
    let mut told = ToldOnPanic(seed, vec![]);
    for _ in 0..STEPS {
        told.1.push(walk.step().await);
        walk.check().await;
    }
}

/// Says which walk it was, and where it had come to.
struct ToldOnPanic(u64, Vec<&'static str>);

impl Drop for ToldOnPanic {
    #[expect(clippy::print_stderr, reason = "part of a failing test's message")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}, after {}", self.0, self.1.join(", "));
        }
    }
}

impl Walk<'_> {
    async fn step(&mut self) -> &'static str {
        match self.dice.roll(15) {
            0..=2 => self.admit().await,
            3 => self.cancel().await,
            4 => self.reschedule().await,
            5 => self.change_limit().await,
            6 => self.change_window_size().await,
            7 => self.put_calendar().await,
            8 => self.pause().await,
            9 => self.replan().await,
            10 => self.replan_in_part().await,
            11 => self.recount().await,
            12 => self.claim().await,
            13 => self.release().await,
            _ => self.advance().await,
        }
    }

    fn small(&mut self, below: u64) -> u32 {
        u32::try_from(self.dice.roll(below)).unwrap()
    }

    async fn admit(&mut self) -> &'static str {
        let count = self.dice.roll(12).min((MOST_ITEMS - self.ids.len()) as u64);
        let (now, first) = (self.f.now().await, self.ids.len());
        let new: Vec<_> = (0..usize::try_from(count).unwrap())
            .map(|n| {
                let at = self.hour + self.dice.seconds(60);
                new_item_at(&format!("p{:03}", first + n), at)
            })
            .collect();
        self.ids.extend(new.iter().map(|item| item.id.to_string()));
        let slots = self.f.place(new.clone()).await;
        let windows = self.f.lane_windows().await;
        for (item, slot) in new.iter().zip(slots) {
            let from = item.requested.unwrap().max(now);
            self.well_placed(&windows, from, slot.scheduled).await;
        }
        "admit"
    }

    /// In open time, not early, and in a window that is not overfull.
    async fn well_placed(&self, windows: &Windows, from: Timestamp, slot: Timestamp) {
        assert!(slot >= from, "{slot} is before {from}");
        assert_eq!(windows.opens_at(slot), Some(slot), "{slot} is closed");
        let window = windows.start_of(slot);
        let used = self.f.store().windows(&bank(), window, 1).await.unwrap();
        let most = windows.capacity(window, window);
        assert!(
            used[0].used <= most,
            "{} of {most} at {window}",
            used[0].used
        );
    }

    async fn cancel(&mut self) -> &'static str {
        let waiting = self.f.waiting().await;
        if let Some(item) = self.dice.one_of(&waiting) {
            assert_eq!(self.f.cancel(item.id.as_str()).await, ActionResult::Yes);
            self.cancelled.insert(item.id.to_string());
        }
        "cancel"
    }

    async fn reschedule(&mut self) -> &'static str {
        let (waiting, now) = (self.f.waiting().await, self.f.now().await);
        let to = self.hour + self.dice.seconds(120);
        if let Some(item) = self.dice.one_of(&waiting) {
            assert_eq!(
                self.f.reschedule(item.id.as_str(), to).await,
                ActionResult::Yes
            );
            let slot = self.f.view(&payment(item.id.as_str())).await.slot;
            let windows = self.f.lane_windows().await;
            self.well_placed(&windows, to.max(now), slot).await;
        }
        "reschedule"
    }

    async fn change_limit(&mut self) -> &'static str {
        let max_per_window = Some(1 + self.small(20));
        let change = LaneChange {
            max_per_window,
            ..LaneChange::default()
        };
        self.f.lane(change).await;
        "limit"
    }

    async fn change_window_size(&mut self) -> &'static str {
        let window_size_secs = Some(1 + self.small(10));
        let change = LaneChange {
            window_size_secs,
            ..LaneChange::default()
        };
        self.f.lane(change).await;
        "window size"
    }

    async fn put_calendar(&mut self) -> &'static str {
        let mut blackouts = vec![];
        for _ in 0..self.dice.roll(3) {
            let from = self.hour + self.dice.seconds(60);
            blackouts.push((from, from + secs(1) + self.dice.seconds(60)));
        }
        self.f.put_calendar(closed(&blackouts)).await;
        "calendar"
    }

    async fn pause(&mut self) -> &'static str {
        let from = self.hour + self.dice.seconds(30);
        let until = from + secs(1) + self.dice.seconds(60);
        let pause = match self.dice.roll(4) {
            0 => paused(Some(from), Some(until)),
            1 => paused(None, Some(until)),
            2 => paused(Some(from), None),
            _ => resumed(),
        };
        self.f.lane(pause).await;
        "pause"
    }

    async fn replan(&mut self) -> &'static str {
        let generation = match self.replan.take() {
            Some(open) => open,
            None => self.f.begin_replan().await,
        };
        let (before, now) = (self.f.waiting().await, self.f.now().await);
        let replanned = self.f.finish_replan(generation).await;
        assert!(replanned.len() <= before.len());
        let windows = self.f.lane_windows().await;
        for moved in &replanned {
            let from = moved.item.requested.max(now);
            assert!(moved.to >= from, "{} is before {from}", moved.to);
            assert_eq!(windows.opens_at(moved.to), Some(moved.to), "closed");
        }
        "replan"
    }

    async fn replan_in_part(&mut self) -> &'static str {
        let generation = self.f.begin_replan().await;
        self.f.replan_some(generation, None, 5).await;
        self.replan = Some(generation);
        "part of a replan"
    }

    async fn recount(&mut self) -> &'static str {
        let recounted = self.f.store().recount(&bank()).await.unwrap();
        assert_eq!(recounted, Recounted::default(), "the counters were right");
        "recount"
    }

    async fn claim(&mut self) -> &'static str {
        let claim = Claim {
            limit: 3,
            ahead: 4 * HOUR,
            ..claim_all()
        };
        for claimed in self.f.claim(claim).await {
            self.claimed.retain(|old| old.id != claimed.id);
            self.claimed.push(claimed);
        }
        "claim"
    }

    async fn release(&mut self) -> &'static str {
        let count = std::mem::take(&mut self.claimed).len() as u64;
        assert_eq!(self.f.release(&claim_all()).await, count);
        "release"
    }

    async fn advance(&mut self) -> &'static str {
        let by = Duration::from_secs(self.dice.roll(900));
        self.f.advance(by).await;
        "advance"
    }

    async fn check(&self) {
        // Whatever is read here is read within this time.
        let ahead = self.f.now().await + secs(20);
        let mut views: Vec<ItemView> = vec![];
        for id in &self.ids {
            views.push(self.f.view(&payment(id)).await);
        }
        for view in &views {
            let id = view.item.id.as_str();
            assert_eq!(view.queue_status, self.expected(id), "{id}");
            assert!(view.slot >= view.requested, "{id} is early");
        }
        let is_ready = |view: &&ItemView| view.queue_status == QueueStatus::Ready;
        let ready = views.iter().filter(is_ready).map(|v| v.item.id.clone());
        let waiting = self.f.waiting().await.into_iter().map(|w| w.id);
        let (ready, told): (BTreeSet<_>, BTreeSet<_>) = (ready.collect(), waiting.collect());
        assert_eq!(told, ready, "nothing is lost");
        if self.replan.is_none() {
            let windows = self.f.lane_windows().await;
            let holds = |view: &&ItemView| view.queue_status != QueueStatus::Cancelled;
            let starts = views.iter().filter(holds).map(|v| windows.start_of(v.slot));
            let expected = count_windows(starts.filter(|start| *start >= ahead));
            assert_eq!(
                self.f.windows_from(ahead).await,
                expected,
                "counters are slots"
            );
        }
    }

    fn expected(&self, id: &str) -> QueueStatus {
        if self.cancelled.contains(id) {
            QueueStatus::Cancelled
        } else if self.claimed.iter().any(|claim| claim.id.as_str() == id) {
            QueueStatus::Claimed
        } else {
            QueueStatus::Ready
        }
    }
}
