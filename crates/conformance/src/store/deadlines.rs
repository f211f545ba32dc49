//! Deadlines of items that must not run late: they are HELD, until a person decides.

use tollgate_core::gate::HORIZON;
use tollgate_core::id::{Item, ItemType};
use tollgate_core::item::QueueStatus;
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{ActionResult, NewItem, NewTurn, Settlement, StatusMove, Then, Turn};

use super::fixture::{
    Fixture, HOUR, SECOND, claim_all, given, new_item, ops, payment, payments, plan, send,
    settlement, signed,
};
use super::planning::{or_hold, secs};

/// Items that must not run in more than an hour, on a fresh lane.
async fn for_the_next_hour(f: &dyn Fixture, ids: &[&str]) -> Vec<Item> {
    f.lane(plan(100, 4)).await;
    let deadline = f.now().await + secs(3600);
    let item = |id: &&str| or_hold(new_item(id), deadline);
    f.place(ids.iter().map(item).collect()).await;
    ids.iter().map(|id| payment(id)).collect()
}

async fn hold_late(f: &dyn Fixture, limit: u32) -> u64 {
    f.store().hold_late(&payments(), limit).await.unwrap()
}
async fn status(f: &dyn Fixture, id: &str) -> QueueStatus {
    f.view(&payment(id)).await.queue_status
}

pub async fn what_must_not_run_late_is_held_after_its_deadline(f: &dyn Fixture) {
    let item = for_the_next_hour(f, &["late"]).await.remove(0);
    let advisory = NewItem {
        deadline: Some(f.now().await + secs(60)),
        ..new_item("advisory")
    };
    f.place(vec![advisory, new_item("free")]).await;
    assert!(f.view(&item).await.hold_if_late);
    assert_eq!(hold_late(f, 100).await, 0, "there is still time");
    f.advance(HOUR + SECOND).await;
    assert_eq!(hold_late(f, 100).await, 1);
    let held = f.view(&item).await;
    assert_eq!((held.queue_status, held.run), (QueueStatus::Held, 1));
    assert!(held.last_error.is_some_and(|why| why.contains("deadline")));
    assert_eq!(f.claim_ids(claim_all()).await, ["advisory", "free"]);
    assert_eq!(hold_late(f, 100).await, 0, "once");
    let entry = f.store().audit(Some(&item), 1).await.unwrap().remove(0);
    assert_eq!(
        (entry.action.as_str(), entry.actor.as_str()),
        ("HELD", "sweeper")
    );
    assert_eq!(entry.status_before.as_deref(), Some("READY"));
    assert_eq!(entry.status_after.as_deref(), Some("HELD"));
}

pub async fn holding_stays_within_its_limit_and_its_type(f: &dyn Fixture) {
    for_the_next_hour(f, &["a", "b", "c"]).await;
    f.advance(HOUR + SECOND).await;
    let invoices = ItemType::new("INVOICE");
    assert_eq!(f.store().hold_late(&invoices, 100).await.unwrap(), 0);
    assert_eq!(hold_late(f, 2).await, 2);
    assert_eq!(hold_late(f, 2).await, 1);
}

pub async fn what_may_have_been_done_is_not_held(f: &dyn Fixture) {
    let items = for_the_next_hour(f, &["unknown", "retried"]).await;
    f.dispatch_all().await;
    let outcomes = [Outcome::Unknown("lost".into()), Outcome::retry("busy")];
    for (item, outcome) in items.iter().zip(outcomes) {
        let (attempt, _) = f.sent(item).await;
        let then = Then::Requeue {
            after: SECOND,
            why: "again".into(),
        };
        let settled = Settlement {
            then,
            ..settlement(item, attempt, outcome)
        };
        assert!(f.settle(settled).await);
    }
    f.advance(HOUR + SECOND).await;
    assert_eq!(hold_late(f, 100).await, 1);
    assert_eq!(
        status(f, "unknown").await,
        QueueStatus::Ready,
        "it must be asked"
    );
    assert_eq!(
        status(f, "retried").await,
        QueueStatus::Held,
        "surely not done"
    );
}

pub async fn what_is_being_executed_is_not_held_by_its_deadline_alone(f: &dyn Fixture) {
    for_the_next_hour(f, &["dispatched"]).await;
    f.dispatch_all().await;
    f.place(vec![or_hold(new_item("claimed"), f.now().await + secs(60))])
        .await;
    f.claim(claim_all()).await;
    f.advance(HOUR + SECOND).await;
    assert_eq!(hold_late(f, 100).await, 0);
    assert_eq!(status(f, "dispatched").await, QueueStatus::Dispatched);
    assert_eq!(status(f, "claimed").await, QueueStatus::Claimed);
}

pub async fn a_send_after_its_deadline_is_too_late_and_opens_nothing(f: &dyn Fixture) {
    let late = for_the_next_hour(f, &["late"]).await.remove(0);
    f.place(vec![new_item("free")]).await;
    f.dispatch_all().await;
    f.advance(HOUR + SECOND).await;
    let block = f.turns(vec![send(&late), send(&payment("free"))]).await;
    assert_eq!(block.turns[0], Turn::TooLate);
    assert_eq!(given(&block).len(), 1, "nobody else is kept");
    assert!(f.view(&late).await.attempts.is_empty());
    assert_eq!(f.logged().await, 1);
    f.advance(SECOND).await;
    let sent_before = NewTurn {
        may_be_late: true,
        ..send(&late)
    };
    assert!(matches!(f.turn(sent_before).await, Turn::At { .. }));
}

/// What counts is the turn, not the time of asking.
pub async fn a_turn_that_lies_after_the_deadline_is_too_late_before_it(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let now = f.now().await;
    let items = [("missed", 3600), ("met", 3660)];
    let items = items.map(|(id, by)| or_hold(new_item(id), now + secs(by)));
    f.place(items.into_iter().collect()).await;
    f.dispatch_all().await;
    f.advance_to(now + secs(3600) - signed(HORIZON / 2)).await;
    assert_eq!(f.far_turn(&payment("missed")).await, Turn::TooLate);
    assert_eq!(f.logged().await, 0);
    let met = f.far_turn(&payment("met")).await;
    assert!(matches!(met, Turn::At { .. }), "{met:?}");
}

pub async fn a_run_that_would_be_late_is_held_by_its_owner_only(f: &dyn Fixture) {
    let items = for_the_next_hour(f, &["p", "q"]).await;
    let (p, store) = (&items[0], f.store());
    assert!(!store.hold(p, 1).await.unwrap(), "READY is nobody's");
    let claimed = f.claim(claim_all()).await;
    assert_eq!(claimed.len(), 2);
    assert!(!store.hold(p, 2).await.unwrap(), "another run");
    assert!(
        store.hold(p, 1).await.unwrap(),
        "a flow may act before its start"
    );
    assert!(!store.hold(p, 1).await.unwrap(), "twice");
    let held = f.view(p).await;
    assert_eq!((held.queue_status, held.run), (QueueStatus::Held, 2));
    assert!(matches!(f.turn(send(p)).await, Turn::NotYours(_)));
    let finish = StatusMove::new(&["SCHEDULED"], "ACCEPTED");
    assert!(!store.finish(p, 1, finish.clone()).await.unwrap());
    assert!(store.finish(&items[1], 1, finish).await.unwrap());
    assert!(!store.hold(&items[1], 1).await.unwrap(), "it has ended");
    assert!(!store.hold(&payment("nobody"), 1).await.unwrap());
    assert_eq!(f.trail(p).await, ["HELD"]);
}

pub async fn a_released_item_runs_late_now_and_is_not_held_again(f: &dyn Fixture) {
    let item = for_the_next_hour(f, &["p"]).await.remove(0);
    f.advance(HOUR + SECOND).await;
    assert_eq!(hold_late(f, 100).await, 1);
    f.advance(HOUR).await;
    let released = f.store().release_held(&item, ops()).await.unwrap();
    assert_eq!(released, ActionResult::Yes);
    let view = f.view(&item).await;
    assert_eq!(view.queue_status, QueueStatus::Ready);
    assert!(view.due <= f.now().await && view.last_error.is_none());
    assert!(!view.hold_if_late, "a person has decided");
    assert_eq!(hold_late(f, 100).await, 0);
    let entry = f.store().audit(Some(&item), 1).await.unwrap().remove(0);
    assert_eq!(
        (entry.action.as_str(), entry.actor.as_str()),
        ("RELEASED", "ops")
    );
    assert_eq!(entry.detail, "because");
    f.dispatch_all().await;
    let turn = f
        .turn(NewTurn {
            run: 2,
            ..send(&item)
        })
        .await;
    assert!(matches!(turn, Turn::At { .. }), "{turn:?}");
}
