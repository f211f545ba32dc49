//! `Plans::recount`: the counters are what lies in the windows ahead.

use tollgate_core::Timestamp;
use tollgate_core::item::QueueStatus;
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{ActionResult, Claim, Recounted};

use super::fixture::{
    Fixture, SECOND, bank, claim_all, many, new_item_at, payment, payments, plan,
};
use super::planning::{count_windows, or_hold, secs};

async fn recount(f: &dyn Fixture) -> Recounted {
    f.store().recount(&bank()).await.unwrap()
}
async fn used(f: &dyn Fixture) -> Vec<u32> {
    f.windows().await.iter().map(|w| w.used).collect()
}
async fn with(f: &dyn Fixture, count: usize) -> Timestamp {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    f.place(many("p", count, hour)).await;
    f.advance_to(hour - secs(1800)).await;
    hour
}

pub async fn a_recount_changes_nothing_when_all_is_right(f: &dyn Fixture) {
    let hour = with(f, 35).await;
    let right = async |what: &str| {
        let entries = f.store().audit(None, 1000).await.unwrap().len();
        let before = f.windows().await;
        assert_eq!(recount(f).await, Recounted::default(), "after {what}");
        assert_eq!(f.windows().await, before);
        assert_eq!(f.store().audit(None, 1000).await.unwrap().len(), entries);
    };
    right("admissions").await;
    f.cancel("p00007").await;
    right("a cancel").await;
    f.reschedule("p00008", hour + secs(3600)).await;
    right("a reschedule").await;
    let twelve = Claim {
        limit: 12,
        ..claim_all()
    };
    f.claim(twelve).await;
    right("claims").await;
    f.replan().await;
    right("a replan with claims").await;
    assert_eq!(f.release(&claim_all()).await, 12);
    right("releases").await;
    f.lane(plan(10, 7)).await;
    right("another window size").await;
    f.replan().await;
    right("another replan").await;
}

/// An item without its context is DEAD; nobody gives its room back at once.
pub async fn a_recount_finds_the_room_that_dead_items_held(f: &dyn Fixture) {
    let hour = with(f, 25).await;
    for id in ["p00000", "p00001", "p00012"] {
        f.lose_body(&payment(id)).await;
    }
    let claimed = f
        .claim(Claim {
            limit: 13,
            ..claim_all()
        })
        .await;
    assert_eq!(claimed.len(), 10);
    assert_eq!(
        f.view(&payment("p00000")).await.queue_status,
        QueueStatus::Dead
    );
    assert_eq!(used(f).await, [10, 10, 5]);
    let found = recount(f).await;
    let expected = Recounted {
        windows: 2,
        returned: 3,
        missing: 0,
    };
    assert_eq!(found, expected);
    assert_eq!(used(f).await, [8, 9, 5]);
    let entry = f.store().audit(None, 1).await.unwrap().remove(0);
    assert_eq!(
        (entry.action.as_str(), entry.actor.as_str()),
        ("RECOUNTED", "reconciliation")
    );
    assert!(
        entry.detail.contains("bank") && entry.detail.contains('3'),
        "{}",
        entry.detail
    );
    assert_eq!(recount(f).await, Recounted::default(), "once");
    f.place(many("q", 3, hour)).await;
    assert_eq!(
        used(f).await,
        [10, 10, 5],
        "though full windows had pointed past them"
    );
}

pub async fn a_recount_does_nothing_while_a_replan_is_open(f: &dyn Fixture) {
    with(f, 25).await;
    let generation = f.begin_replan().await;
    f.replan_some(generation, None, 25).await;
    f.lose_body(&payment("p00000")).await;
    let one = Claim {
        limit: 1,
        ..claim_all()
    };
    assert_eq!(f.claim(one).await, []);
    let before = f.windows().await;
    assert_eq!(recount(f).await, Recounted::default());
    assert_eq!(f.windows().await, before);
    f.finish_replan(generation).await;
    assert_eq!(recount(f).await.returned, 1, "and then it does");
}

/// Whoever is HELD keeps its room until a person decides; cancelling gives it back once.
pub async fn the_room_of_a_held_item_comes_back_once(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    let deadline = f.now().await + secs(60);
    let late = or_hold(new_item_at("late", hour), deadline);
    f.place(vec![late]).await;
    f.place(many("p", 9, hour)).await;
    f.advance(60 * SECOND).await;
    assert_eq!(f.store().hold_late(&payments(), 10).await.unwrap(), 1);
    recount(f).await;
    f.place(vec![new_item_at("q", hour)]).await;
    assert_eq!(f.cancel("late").await, ActionResult::Yes);
    f.place(many("r", 2, hour)).await;
    let waiting = f.waiting().await;
    let windows = count_windows(waiting.iter().map(|w| w.window));
    assert!(windows.iter().all(|w| w.used <= 10), "{windows:?}");
    assert_eq!(windows, f.windows().await);
    assert_eq!(windows[0].used, 10, "and the room is used");
}

pub async fn a_held_item_that_is_rescheduled_is_not_held_again(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    let deadline = f.now().await + secs(60);
    f.place(vec![or_hold(new_item_at("late", hour), deadline)])
        .await;
    f.advance(60 * SECOND).await;
    assert_eq!(f.store().hold_late(&payments(), 10).await.unwrap(), 1);
    let later = hour + secs(3600);
    assert_eq!(f.reschedule("late", later).await, ActionResult::Yes);
    assert_eq!(f.store().hold_late(&payments(), 10).await.unwrap(), 0);
    let view = f.view(&payment("late")).await;
    assert_eq!((view.queue_status, view.slot), (QueueStatus::Ready, later));
    f.advance_to(later).await;
    assert_eq!(f.claim(claim_all()).await.len(), 1);
    assert_eq!(recount(f).await, Recounted::default());
}

pub async fn a_changed_window_size_does_not_count_what_was_withdrawn(f: &dyn Fixture) {
    let hour = with(f, 20).await;
    for n in 0..10 {
        assert_eq!(f.cancel(&format!("p{n:05}")).await, ActionResult::Yes);
    }
    f.lane(plan(10, 8)).await;
    let windows = f.windows_from(hour).await;
    assert_eq!(windows.iter().map(|w| w.used).collect::<Vec<_>>(), [10]);
    assert_eq!(recount(f).await, Recounted::default());
    let wider = LaneChange {
        max_per_window: Some(11),
        ..LaneChange::default()
    };
    f.lane(wider).await;
    let slot = f.place(vec![new_item_at("q", hour)]).await.remove(0);
    assert!(slot.scheduled < hour + secs(8));
}
