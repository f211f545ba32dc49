//! The scenarios of the rate limiter that lanes come from (seed 002), with its numbers and under its
//! names; and its five known limitations, each of which is gone:
//!
//! 1. The limit is statistical: here it is hard. `turns::takers_at_once_share_one_even_pace`,
//!    `certificate::the_certificate_equals_a_brute_force_count`.
//! 2. Lookahead exhaustion: [`no_lookahead_exhaustion`].
//! 3. Slot leakage: `admit::a_caller_that_hangs_up_leaves_all_of_an_item_or_nothing`, and
//!    `recounts::a_recount_finds_the_room_that_dead_items_held`.
//! 4. Changes propagate late, through a cache: [`no_config_propagation_delay`].
//! 5. No business hours: `hours::slots_keep_to_weekly_hours`, `hours::no_slot_lies_in_closed_time`.

use std::collections::BTreeSet;

use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{Admission, Placed};

use super::fixture::{Fixture, is_new, many, new_item_at, payments, placed, plan};
use super::planning::secs;

/// 100 in four seconds, and a hard limit that is not in the way.
fn seed_plan(max_per_window: u32) -> LaneChange {
    LaneChange {
        max_per_second: Some(100.into()),
        ..plan(max_per_window, 4)
    }
}
async fn used(f: &dyn Fixture) -> Vec<u32> {
    f.windows().await.iter().map(|w| w.used).collect()
}

/// "If window has 80 slots and new config allows 200, 120 more slots are available."
pub async fn increase_sees_occupancy(f: &dyn Fixture) {
    f.lane(seed_plan(100)).await;
    let hour = f.next_hour().await;
    let before = f.place(many("a", 80, hour)).await;
    f.lane(seed_plan(200)).await;
    let more = f.place(many("b", 121, hour)).await;
    assert_eq!(used(f).await, [200, 1]);
    let here = |p: &&Placed| p.scheduled < hour + secs(4);
    assert_eq!(more.iter().filter(here).count(), 120);
    assert_eq!(again(f, "a", 80, before).await, 80, "never modified");
}

/// "Window with 80 slots under old max=100, new max=50: window is treated as full."
pub async fn decrease_treats_as_full(f: &dyn Fixture) {
    f.lane(seed_plan(100)).await;
    let hour = f.next_hour().await;
    let before = f.place(many("a", 80, hour)).await;
    f.lane(seed_plan(50)).await;
    let next = f.place(vec![new_item_at("b", hour)]).await.remove(0);
    assert_eq!(next.scheduled, hour + secs(4));
    assert_eq!(used(f).await, [80, 1]);
    assert_eq!(again(f, "a", 80, before).await, 80, "never modified");
}

/// How many get the answer they had, when they are admitted again.
async fn again(f: &dyn Fixture, prefix: &str, count: usize, before: Vec<Placed>) -> usize {
    let hour = f.next_hour().await;
    let answers = f.admit(many(prefix, count, hour)).await;
    let repeated = answers.iter().zip(before);
    let same = |(a, p): &(&Admission, Placed)| **a == Admission::Repeat(p.clone());
    repeated.filter(same).count()
}

/// "Calling `assignSlot()` twice with the same `event_id` returns the same `AssignedSlot`", also at
/// once, and no slot is spent on it.
pub async fn idempotency(f: &dyn Fixture) {
    f.lane(seed_plan(100)).await;
    let hour = f.next_hour().await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (store, items) = (f.store(), many("p", 30, hour));
            tokio::spawn(async move { store.admit(&payments(), items).await.unwrap() })
        })
        .collect();
    let mut answers: Vec<Vec<Admission>> = vec![];
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    let slots = |batch: &[Admission]| batch.iter().map(placed).collect::<Vec<_>>();
    let first = slots(&answers[0]);
    assert!(answers.iter().all(|batch| slots(batch) == first));
    let new = answers.iter().flatten().filter(|a| is_new(a)).count();
    assert_eq!((new, used(f).await), (30, vec![30]));
}

/// Many writers for one instant: every window is exactly full, and nobody is refused.
pub async fn concurrent_bulk_ingestion(f: &dyn Fixture) {
    f.lane(seed_plan(100)).await;
    let hour = f.next_hour().await;
    let tasks: Vec<_> = (0..20)
        .map(|n| {
            let (store, items) = (f.store(), many(&format!("b{n}-"), 100, hour));
            tokio::spawn(async move { store.admit(&payments(), items).await.unwrap() })
        })
        .collect();
    let mut slots = BTreeSet::new();
    for task in tasks {
        slots.extend(task.await.unwrap().iter().map(|a| placed(a).scheduled));
    }
    assert_eq!(slots.len(), 2000, "no two share a slot");
    assert_eq!(used(f).await, [100; 20]);
    assert!(slots.last().is_some_and(|last| *last < hour + secs(80)));
}

/// "If a single burst exceeds `maxLookahead * maxPerWindow` events (default: 200 * 100 = 20,000),
/// slot assignment fails for remaining events": not here.
pub async fn no_lookahead_exhaustion(f: &dyn Fixture) {
    f.lane(seed_plan(100)).await;
    let hour = f.next_hour().await;
    let burst = many("p", 20_500, hour);
    let mut last = hour;
    for batch in burst.chunks(2050) {
        let slots = f.place(batch.to_vec()).await;
        last = last.max(slots.iter().map(|p| p.scheduled).max().unwrap());
    }
    assert_eq!(used(f).await, [100; 205]);
    assert!(
        (hour + secs(816)..hour + secs(820)).contains(&last),
        "{last}"
    );
}

/// "Config changes take up to `cache-ttl-seconds` to propagate": here the next item on any node
/// goes by the change.
pub async fn no_config_propagation_delay(f: &dyn Fixture) {
    let hour = f.next_hour().await;
    for n in 1..=10_u32 {
        f.lane(seed_plan(10 * n)).await;
        let items = many(&format!("b{n}-"), 10, hour);
        let slots = f.place(items).await;
        assert!(
            slots.iter().all(|p| p.scheduled < hour + secs(4)),
            "change {n}"
        );
        let next = f.place(vec![new_item_at(&format!("n{n}"), hour)]).await;
        assert!(
            next[0].scheduled >= hour + secs(4),
            "and no further, change {n}"
        );
    }
}
