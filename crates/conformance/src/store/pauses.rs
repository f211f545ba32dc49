//! Pauses with a beginning, an end, both or neither: sends stop, and slots go on being given.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::gate::HORIZON;
use tollgate_core::lane_in_force::CLOSED_PAUSE;
use tollgate_core::ports::{Author, StoreError, Turn};

use super::fixture::{
    Fixture, HOUR, MINUTE, SECOND, STALE, bank, new_item, new_item_at, ops, payments, plan, send,
    signed,
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
    f.lane(plan(10, 4)).await;
    let item = f.dispatched_one().await;
    for until in [None, Some(f.now().await + secs(3600))] {
        let soon = f.now().await + signed(HORIZON / 2);
        f.lane(paused(Some(soon), until)).await;
        let given = f.far_turn(&item).await;
        assert!(!matches!(given, Turn::At { .. }), "{given:?}");
    }
    f.lane(paused(Some(f.now().await + secs(60)), None)).await;
    let given = f.far_turn(&item).await;
    assert!(matches!(given, Turn::At { .. }), "{given:?}");
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

pub async fn a_lane_closed_for_a_while_gives_no_turn_until_then_and_tells_who_closed_it(
    f: &dyn Fixture,
) {
    let version = f.lane(plan(10, 4)).await.version;
    let items = f.dispatched_many(2).await;
    f.sent(&items[0]).await;
    let breaker = Author::new("breaker", "10 exchanges failed");
    let closed = f.store().close_lane(&bank(), MINUTE, breaker).await;
    closed.unwrap();
    let Turn::Closed { for_at_least, .. } = f.turn(send(&items[1])).await else {
        panic!("a closed lane gave a turn")
    };
    assert!(for_at_least <= MINUTE && for_at_least > MINUTE / 2);
    let due = f.store().lanes_due(&payments(), HOUR, STALE).await.unwrap();
    assert!(due.lanes.is_empty(), "{due:?}");
    let lane = f.store().lane(&bank()).await.unwrap().unwrap();
    let because = Author::new("breaker", "10 exchanges failed");
    assert_eq!(lane.closed_by, Some(because));
    assert_eq!(
        (lane.version, lane.lane.pause),
        (version, None),
        "no setting"
    );
    let entry = f.store().audit(None, 1).await.unwrap().remove(0);
    let (action, actor) = (entry.action.as_str(), entry.actor.as_str());
    assert_eq!((action, actor), ("LANE_CLOSED", "breaker"));
    for word in ["bank", "60s", "10 exchanges failed"] {
        assert!(entry.detail.contains(word), "{}", entry.detail);
    }
    f.advance(for_at_least).await;
    f.sent(&items[1]).await;
}

pub async fn a_shorter_closing_never_shortens_a_longer_one(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let item = f.dispatched_one().await;
    let close = async |time, actor: &str| {
        let author = Author::new(actor, "x");
        f.store().close_lane(&bank(), time, author).await.unwrap();
        f.lane_in_force().await.closed_by.map(|author| author.actor)
    };
    let closed_for = async || match f.turn(send(&item)).await {
        Turn::Closed { for_at_least, .. } => for_at_least,
        other => panic!("not closed: {other:?}"),
    };
    assert_eq!(close(HOUR, "breaker").await.unwrap(), "breaker");
    let by = close(SECOND, "ops").await;
    assert_eq!(by.unwrap(), "breaker", "nor is it told as its author's");
    let left = closed_for().await;
    assert!(left > 59 * MINUTE, "{left:?}");
    assert_eq!(close(2 * HOUR, "ops").await.unwrap(), "ops");
    let left = closed_for().await;
    assert!(left > 119 * MINUTE, "a longer one does: {left:?}");
    f.advance(left).await;
    f.sent(&item).await;
}
