//! What a decline leaves: an item that may be asked again under another key, moved by a person
//! meanwhile, and tried again after its end; and never one that may have been done. And what a proof
//! leaves that nothing was done.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::id::{AttemptId, Item};
use tollgate_core::item::QueueStatus;
use tollgate_core::outcome::{AttemptKind, AttemptState, Outcome};
use tollgate_core::ports::{ActionResult, NewTurn, Settlement, StatusMove, Then, Turn};

use super::fixture::{Fixture, HOUR, SECOND, lost, ops, payment, plan, send, settlement};
use super::planning::secs;

const DAY: Duration = Duration::from_hours(24);

/// Sends in this run and settles as said.
async fn exchange(f: &dyn Fixture, item: &Item, run: u32, outcome: Outcome, then: Then) {
    let turn = NewTurn {
        run,
        key: format!("key of run {run}"),
        ..send(item)
    };
    let Turn::At { attempt, .. } = f.turn(turn).await else {
        panic!("{item} was given no turn")
    };
    let settled = Settlement {
        run,
        then,
        ..settlement(item, attempt, outcome)
    };
    assert!(f.settle(settled).await);
}

/// An item in doubt, in its second run, with an open question about it; and that question.
async fn asked_about(f: &dyn Fixture) -> (Item, AttemptId) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let lost = Outcome::Unknown("lost".into());
    exchange(f, &item, 1, lost, after(SECOND)).await;
    f.advance(2 * SECOND).await;
    f.dispatch_all().await;
    let question = NewTurn {
        run: 2,
        kind: AttemptKind::Probe,
        ..send(&item)
    };
    let Turn::At { attempt, .. } = f.turn(question).await else {
        panic!("{item} was given no turn")
    };
    (item, attempt)
}

fn proof(item: &Item, attempt: AttemptId, run: u32) -> Settlement {
    Settlement {
        run,
        then: after(Duration::ZERO),
        disproves: true,
        ..settlement(item, attempt, Outcome::retry("unknown to me"))
    }
}

fn after(pause: Duration) -> Then {
    Then::Requeue {
        after: pause,
        why: "no funds".into(),
    }
}

fn declined() -> Outcome {
    Outcome::Declined("no funds".into())
}

fn again() -> StatusMove {
    StatusMove::new(&["FAILED"], "SCHEDULED")
}

pub async fn what_was_declined_may_be_given_another_time_although_it_was_in_doubt(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let lost = Outcome::Unknown("lost".into());
    exchange(f, &item, 1, lost.clone(), after(SECOND)).await;
    let soon = f.now().await + secs(7200);
    let ActionResult::Refused(why) = f.reschedule("p", soon).await else {
        panic!("it may have been done")
    };
    assert!(why.contains("may have been executed"), "{why}");

    f.advance(2 * SECOND).await;
    f.dispatch_all().await;
    exchange(f, &item, 2, declined(), after(DAY)).await;
    assert_eq!(f.reschedule("p", soon).await, ActionResult::Yes);
    let view = f.view(&item).await;
    assert_eq!(
        (view.queue_status, view.run, view.due),
        (QueueStatus::Ready, 4, view.slot)
    );
    assert!(view.slot >= soon && view.slot < soon + secs(4));

    // What is sent after that is in doubt by itself.
    f.advance(3 * HOUR).await;
    f.dispatch_all().await;
    exchange(f, &item, 4, lost, after(SECOND)).await;
    assert!(matches!(
        f.reschedule("p", soon).await,
        ActionResult::Refused(_)
    ));
}

pub async fn what_has_ended_and_was_declined_is_tried_again_as_its_next_run(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let failed = StatusMove::new(&["SCHEDULED"], "FAILED");
    exchange(f, &item, 1, declined(), Then::Stay).await;
    let reopen = async |at: Timestamp| {
        let reopened = f.store().reopen(&item, again(), at, ops()).await;
        reopened.unwrap()
    };
    let now = f.now().await;
    let refused = |answer: ActionResult, what: &str| match answer {
        ActionResult::Refused(why) => assert!(why.contains(what), "{why}"),
        other => panic!("{other:?} instead of {what}"),
    };
    refused(reopen(now).await, "it is SCHEDULED, not FAILED");
    assert!(f.store().finish(&item, 1, failed).await.unwrap());

    let later = now + secs(3600);
    assert_eq!(reopen(later).await, ActionResult::Yes);
    let view = f.view(&item).await;
    let seen = (view.queue_status, view.run, view.status.as_str());
    assert_eq!(seen, (QueueStatus::Ready, 2, "SCHEDULED"));
    assert_eq!((view.finished_at, view.dispatched_at), (None, None));
    assert!(view.slot >= later && view.due == view.slot, "{view:?}");
    assert_eq!(f.trail(&item).await[0], "REOPENED");
    refused(reopen(now).await, "not FAILED");

    f.advance(2 * HOUR).await;
    f.dispatch_all().await;
    assert_eq!(f.view(&item).await.queue_status, QueueStatus::Dispatched);
}

pub async fn what_may_have_been_done_is_never_tried_again_by_a_person(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let table = [
        Outcome::Done("ok".into()),
        Outcome::Unknown("lost".into()),
        Outcome::Refused("no such customer".into()),
    ];
    for (n, outcome) in table.into_iter().enumerate() {
        let item = f.dispatched(&[&format!("p{n}")]).await.remove(0);
        let was_refused = matches!(outcome, Outcome::Refused(_));
        exchange(f, &item, 1, outcome, Then::Stay).await;
        let failed = StatusMove::new(&["SCHEDULED"], "FAILED");
        assert!(f.store().finish(&item, 1, failed).await.unwrap());
        let now = f.now().await;
        let answer = f.store().reopen(&item, again(), now, ops()).await.unwrap();
        assert_eq!(answer == ActionResult::Yes, was_refused, "{answer:?}");
        let attempt = f.view(&item).await.attempts.remove(0);
        assert_eq!(attempt.makes_way(), was_refused, "{attempt:?}");
        let is_refused = attempt.state == AttemptState::Refused;
        assert_eq!(is_refused, was_refused, "its outcome stays");
        let tried = f.store().take_over(&item, 2, SECOND, &lost()).await;
        let makes_way = tried.unwrap().past[0].makes_way();
        assert_eq!(makes_way, was_refused);
    }
    let nobody = payment("nobody");
    let now = f.now().await;
    let answer = f.store().reopen(&nobody, again(), now, ops()).await;
    assert_eq!(answer.unwrap(), ActionResult::NoSuchItem);
}

pub async fn what_was_disproved_and_then_refused_is_tried_again(f: &dyn Fixture) {
    let (item, question) = asked_about(f).await;
    assert!(f.settle(proof(&item, question, 2)).await);
    let view = f.view(&item).await;
    let states: Vec<_> = view.attempts.iter().map(|a| a.state).collect();
    assert_eq!(states, [AttemptState::Retry, AttemptState::Retry]);
    assert!(view.attempts[0].detail.contains("unknown to me"));

    f.dispatch_all().await;
    let refused = Outcome::Refused("no such customer".into());
    exchange(f, &item, 3, refused, Then::Stay).await;
    let failed = StatusMove::new(&["SCHEDULED"], "FAILED");
    assert!(f.store().finish(&item, 3, failed).await.unwrap());
    let now = f.now().await;
    let answer = f.store().reopen(&item, again(), now, ops()).await;
    assert_eq!(answer.unwrap(), ActionResult::Yes);
}

pub async fn a_proof_of_a_run_that_lost_the_item_is_written_and_proves_nothing_yet(
    f: &dyn Fixture,
) {
    let (item, question) = asked_about(f).await;
    let taken = f.store().put_back(&item, 2, Duration::ZERO, "taken").await;
    assert!(taken.unwrap());
    assert!(!f.settle(proof(&item, question, 2)).await);
    let view = f.view(&item).await;
    let states: Vec<_> = view.attempts.iter().map(|a| a.state).collect();
    assert_eq!(states, [AttemptState::Unknown, AttemptState::Retry]);
}

pub async fn a_history_tells_each_attempts_key(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    exchange(f, &item, 1, declined(), after(Duration::ZERO)).await;
    f.dispatch_all().await;
    exchange(f, &item, 2, declined(), Then::Stay).await;
    let history = f
        .store()
        .take_over(&item, 2, SECOND, &lost())
        .await
        .unwrap();
    let keys: Vec<_> = history.past.iter().map(|past| past.key.as_str()).collect();
    assert_eq!(keys, ["key of run 1", "key of run 2"]);
}
