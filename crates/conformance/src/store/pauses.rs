//! Pauses with a beginning, an end, both or neither: sends stop, and slots go on being given.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::lane::LaneChange;
use tollgate_core::lane_in_force::CLOSED_PAUSE;
use tollgate_core::ports::{StoreError, Turn};

use super::fixture::{
    Fixture, HOUR, MINUTE, SECOND, STALE, bank, new_item, new_item_at, ops, payments, plan, send,
};
use super::planning::{paused, resumed, secs};

/// How long the lane says it is closed for.
async fn closed_for(f: &dyn Fixture, item: &tollgate_core::id::Item) -> Duration {
    match f.turn(send(item)).await {
        Turn::Closed { why, for_at_least } => {
            assert!(
                why.contains("ops") && why.contains("the bank is down"),
                "{why}"
            );
            for_at_least
        }
        other => panic!("not paused: {other:?}"),
    }
}

pub async fn a_pause_with_an_end_holds_at_once_and_ends_by_itself(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let item = f.dispatched_one().await;
    let until = f.now().await + secs(3600);
    f.lane(paused(None, Some(until))).await;
    let wait = closed_for(f, &item).await;
    assert!(wait <= HOUR && wait > 59 * MINUTE, "{wait:?}");
    assert_eq!(f.logged().await, 0);
    f.advance(wait).await;
    assert!(f.sent(&item).await.1 >= until);
}

pub async fn a_pause_with_a_beginning_stops_sends_from_there_until_it_is_lifted(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let items = f.dispatched_many(2).await;
    let from = f.now().await + secs(3600);
    f.lane(paused(Some(from), None)).await;
    f.sent(&items[0]).await;
    f.advance_to(from).await;
    assert_eq!(closed_for(f, &items[1]).await, CLOSED_PAUSE, "nobody knows");
    f.advance(24 * HOUR).await;
    closed_for(f, &items[1]).await;
    f.lane(resumed()).await;
    f.sent(&items[1]).await;
}

pub async fn a_pause_with_both_ends_stops_sends_between_them(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let items = f.dispatched_many(2).await;
    let from = f.now().await + secs(3600);
    let until = from + secs(3600);
    f.lane(paused(Some(from), Some(until))).await;
    f.sent(&items[0]).await;
    f.advance_to(from).await;
    let wait = closed_for(f, &items[1]).await;
    assert!(wait <= HOUR && wait > 59 * MINUTE, "{wait:?}");
    f.advance(wait).await;
    assert!(f.sent(&items[1]).await.1 >= until);
}

/// A slow lane reserves its next turn ten seconds ahead, but not beyond the beginning of a pause.
pub async fn no_turn_lies_after_the_beginning_of_a_pause(f: &dyn Fixture) {
    let slow = LaneChange {
        max_per_second: Some("0.1".parse().unwrap()),
        ..plan(10, 4)
    };
    f.lane(slow).await;
    let items = f.dispatched_many(2).await;
    let (_, first) = f.sent(&items[0]).await;
    f.advance(SECOND).await;
    for until in [None, Some(first + secs(3600))] {
        f.lane(paused(Some(first + secs(9)), until)).await;
        assert_eq!(f.turn(send(&items[1])).await, Turn::Later);
    }
    f.lane(paused(Some(first + secs(11)), None)).await;
    assert_eq!(f.sent(&items[1]).await.1, first + secs(10));
}

pub async fn a_paused_lane_is_not_due_and_next_in_is_its_known_end(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    f.place(vec![new_item("p")]).await;
    f.advance(MINUTE).await;
    let (store, kind) = (f.store(), payments());
    let due = async || store.lanes_due(&kind, SECOND, STALE).await.unwrap();
    let until = f.now().await + secs(3600);
    f.lane(paused(None, Some(until))).await;
    let closed = due().await;
    assert_eq!(closed.lanes, []);
    let wait = closed.next_in.expect("its end is known");
    assert!(wait <= HOUR && wait > 59 * MINUTE, "{wait:?}");
    f.advance(wait).await;
    assert_eq!(due().await.lanes, [bank()]);
}

pub async fn new_slots_lie_after_a_known_end_of_a_pause(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    let slot = async |id: &str, at: Timestamp| -> Timestamp {
        f.place(vec![new_item_at(id, at)]).await.remove(0).scheduled
    };
    f.lane(paused(None, Some(hour + secs(60)))).await;
    assert_eq!(slot("a", hour).await, hour + secs(60));
    f.lane(paused(Some(hour), Some(hour + secs(120)))).await;
    assert_eq!(
        slot("b", hour - secs(60)).await,
        hour - secs(60),
        "before it"
    );
    assert_eq!(slot("c", hour + secs(8)).await, hour + secs(120));
}

pub async fn an_endless_pause_gives_slots_as_if_the_lane_were_open(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    for (id, from) in [("a", None), ("b", Some(hour - secs(60)))] {
        f.lane(paused(from, None)).await;
        let slot = f.place(vec![new_item_at(id, hour)]).await.remove(0);
        assert!(slot.scheduled < hour + secs(4), "{}", slot.scheduled);
    }
}

pub async fn a_pause_that_ends_before_it_begins_is_refused(f: &dyn Fixture) {
    let before = f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    let backwards = paused(Some(hour), Some(hour));
    let refused = f.store().change_lane(&bank(), backwards, ops()).await;
    let Err(StoreError::Invalid(why)) = refused else {
        panic!("{refused:?}")
    };
    assert!(why.contains("until") && why.contains("bank"), "{why}");
    assert_eq!(f.lane_in_force().await, before);
}
