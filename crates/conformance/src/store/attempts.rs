//! `Attempts::take_over` and `Attempts::settle`: what a dead sender left, and what became of a send.

use std::time::Duration;

use tollgate_core::id::{AttemptId, Item};
use tollgate_core::item::QueueStatus;
use tollgate_core::outcome::{AttemptKind, AttemptState, Outcome};
use tollgate_core::ports::{
    ActionResult, IN_DOUBT, NewTurn, Resolution, Resolved, Settlement, StatusMove, StoreError,
    Then, Turn,
};

use super::fixture::{
    Fixture, HOUR, MINUTE, SECOND, TOLERANCE, bank, lost, micros, ops, payment, plan, send,
    settlement,
};

fn to(status: &str) -> StatusMove {
    StatusMove::new(&["SCHEDULED"], status)
}

pub async fn an_item_never_sent_has_no_history(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let before = f.now().await;
    let history = f
        .store()
        .take_over(&item, 1, TOLERANCE, &lost())
        .await
        .unwrap();
    assert_eq!((history.past, history.busy_for), (vec![], None));
    assert!(history.now >= before);
}

pub async fn an_open_attempt_whose_turn_may_still_be_used_makes_the_item_busy(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    f.sent(&item).await;
    let history = f
        .store()
        .take_over(&item, 1, MINUTE, &lost())
        .await
        .unwrap();
    let busy = history.busy_for.expect("its turn may still be used");
    assert!(busy <= MINUTE + SECOND && busy > MINUTE / 2, "{busy:?}");
    assert_eq!(history.past[0].state, AttemptState::Open);
    assert_eq!(
        f.view(&item).await.attempts[0].state,
        AttemptState::Open,
        "nothing was changed"
    );
    f.advance(busy).await;
    let history = f
        .store()
        .take_over(&item, 1, MINUTE, &lost())
        .await
        .unwrap();
    assert_eq!(history.busy_for, None);
    assert_eq!(history.past[0].state, AttemptState::Unknown);
}

pub async fn an_open_attempt_whose_turn_has_passed_is_unknown(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (attempt, at) = f.sent(&item).await;
    f.advance(SECOND).await;
    let history = f
        .store()
        .take_over(&item, 1, TOLERANCE, &lost())
        .await
        .unwrap();
    assert_eq!(history.busy_for, None);
    let past = &history.past[0];
    assert_eq!(
        (past.attempt, past.state, past.turn_at),
        (attempt, AttemptState::Unknown, at)
    );
    assert!(!past.detail.is_empty(), "and says why");
    let view = f.view(&item).await;
    assert_eq!(view.attempts[0].state, AttemptState::Unknown);
    assert!(view.attempts[0].settled_at.is_some());
}

pub async fn a_history_tells_all_attempts_oldest_first(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let mut attempts = vec![];
    for why in ["first", "second", "third"] {
        let (attempt, _) = f.sent(&item).await;
        f.settle(settlement(&item, attempt, Outcome::retry(why)))
            .await;
        attempts.push(attempt);
    }
    let history = f
        .store()
        .take_over(&item, 1, TOLERANCE, &lost())
        .await
        .unwrap();
    let told: Vec<AttemptId> = history.past.iter().map(|past| past.attempt).collect();
    assert_eq!(told, attempts);
    let details: Vec<_> = history.past.iter().map(|p| p.detail.as_str()).collect();
    assert_eq!(details, ["first", "second", "third"]);
}

/// An attempt that is taken for another kind, or another outcome, could be sent twice.
pub async fn an_attempt_with_a_word_that_nobody_knows_is_told_as_a_bug(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    for (column, id) in [("kind", "k"), ("state", "s")] {
        let item = f.dispatched(&[id]).await.remove(0);
        f.sent(&item).await;
        f.damage(&format!(
            "UPDATE attempt SET {column} = 'WAVED' WHERE item_id = '{id}'"
        ))
        .await;
        let told = [
            f.store()
                .take_over(&item, 1, TOLERANCE, &lost())
                .await
                .map(drop),
            f.store().item(&item).await.map(drop),
        ];
        for told in told {
            let Err(StoreError::Bug(why)) = told else {
                panic!("{column}: {told:?}")
            };
            assert!(why.contains(column) && why.contains("WAVED"), "{why}");
        }
    }
}

pub async fn every_outcome_is_written_to_its_attempt(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let outcomes = [
        (Outcome::Done("ok".into()), AttemptState::Done),
        (Outcome::Refused("no funds".into()), AttemptState::Refused),
        (Outcome::Declined("no funds".into()), AttemptState::Declined),
        (Outcome::retry("429"), AttemptState::Retry),
        (Outcome::Unknown("timeout".into()), AttemptState::Unknown),
    ];
    for (n, (outcome, state)) in outcomes.into_iter().enumerate() {
        let item = f.dispatched(&[&format!("p{n}")]).await.remove(0);
        let (attempt, _) = f.sent(&item).await;
        assert!(f.settle(settlement(&item, attempt, outcome.clone())).await);
        let view = f.view(&item).await;
        assert_eq!(view.attempts[0].state, state);
        assert_eq!(view.attempts[0].detail, outcome.detail());
        assert!(view.attempts[0].settled_at.is_some());
        assert_eq!(view.status, "SCHEDULED", "no move was asked for");
        assert_eq!((view.finished_at, view.run), (None, 1), "it stays");
        let traces = f.trail(&item).await.len();
        let expected = usize::from(state != AttemptState::Done);
        assert_eq!(traces, expected, "what did not go well leaves a trace");
    }
}

pub async fn settling_may_finish_the_item_and_move_its_record_together(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (attempt, _) = f.sent(&item).await;
    let done = Settlement {
        record: Some(to("ACCEPTED")),
        then: Then::Finish,
        ..settlement(&item, attempt, Outcome::Done("ok".into()))
    };
    assert!(f.settle(done).await);
    let view = f.view(&item).await;
    assert_eq!(view.status, "ACCEPTED");
    assert!(view.finished_at.is_some());
    assert_eq!(view.queue_status, QueueStatus::Dispatched);
}

pub async fn settling_may_send_the_item_back_as_its_next_run(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (attempt, _) = f.sent(&item).await;
    let before = f.now().await;
    let back = Settlement {
        record: Some(to("IN_DOUBT")),
        then: Then::Requeue {
            after: 10 * MINUTE,
            why: "ask later".into(),
        },
        ..settlement(&item, attempt, Outcome::Unknown("timeout".into()))
    };
    assert!(f.settle(back).await);
    let view = f.view(&item).await;
    assert_eq!((view.queue_status, view.run), (QueueStatus::Ready, 2));
    assert_eq!(view.status, "IN_DOUBT");
    assert_eq!(view.last_error.as_deref(), Some("ask later"));
    let pause = micros(before, view.due);
    assert!((600_000_000..630_000_000).contains(&pause), "{pause} us");
    assert!(view.slot < view.due, "the slot does not move");
}

pub async fn settling_may_let_the_flow_go_on_with_its_record_moved(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (attempt, _) = f.sent(&item).await;
    let on = Settlement {
        record: Some(to("ACCEPTED")),
        ..settlement(&item, attempt, Outcome::Done("ok".into()))
    };
    assert!(f.settle(on).await);
    let view = f.view(&item).await;
    assert_eq!((view.status.as_str(), view.finished_at), ("ACCEPTED", None));
}

/// Sent, and taken over before an answer came.
async fn taken_over(f: &dyn Fixture) -> (Item, AttemptId) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (attempt, _) = f.sent(&item).await;
    f.advance(SECOND).await;
    let history = f.store().take_over(&item, 1, TOLERANCE, &lost()).await;
    assert_eq!(history.unwrap().past[0].state, AttemptState::Unknown);
    (item, attempt)
}

pub async fn an_outcome_after_a_takeover_changes_nothing_but_that_it_was_done(f: &dyn Fixture) {
    let (item, attempt) = taken_over(f).await;
    let store = f.store();
    assert_eq!(
        f.view(&item).await.status,
        IN_DOUBT,
        "and nobody says so later"
    );
    let late = |outcome| Settlement {
        record: Some(StatusMove::new(&[IN_DOUBT], "ENDED")),
        then: Then::Finish,
        close_lane: Some((bank(), HOUR)),
        ..settlement(&item, attempt, outcome)
    };
    for outcome in [Outcome::Refused("no".into()), Outcome::Unknown("?".into())] {
        assert!(!f.settle(late(outcome)).await);
        let view = f.view(&item).await;
        assert_eq!(view.attempts[0].state, AttemptState::Unknown);
        assert_eq!((view.status.as_str(), view.finished_at), (IN_DOUBT, None));
    }
    let closed_until = store.lane(&bank()).await.unwrap().unwrap().closed_until;
    assert_eq!(closed_until, None);
    assert!(
        f.settle(late(Outcome::Done("ok".into()))).await,
        "its own run"
    );
    let view = f.view(&item).await;
    assert_eq!(view.attempts[0].state, AttemptState::Done);
    assert_eq!(view.status, "ENDED");
}

/// Its answer comes when the item is another run's, and is known not to have been done.
pub async fn that_it_was_done_is_written_even_when_it_was_disproved(f: &dyn Fixture) {
    let (item, attempt) = taken_over(f).await;
    let store = f.store();
    let not_done = Resolution {
        resolved: Resolved::NotDone,
        sends: 1,
        record: StatusMove::new(&[IN_DOUBT], "SCHEDULED"),
    };
    let word = store.resolve(&item, not_done, ops()).await.unwrap();
    assert_eq!(word, ActionResult::Yes);
    let late = settlement(&item, attempt, Outcome::Done("ok".into()));
    assert!(!f.settle(late).await, "not its run's any more");
    let view = f.view(&item).await;
    assert_eq!(view.attempts[0].state, AttemptState::Done);
    assert_eq!(
        (view.status.as_str(), view.finished_at),
        ("SCHEDULED", None)
    );
    f.dispatch_all().await;
    let history = store.take_over(&item, 2, TOLERANCE, &lost()).await.unwrap();
    assert_eq!(
        history.past[0].state,
        AttemptState::Done,
        "the next run finds it"
    );
    let again = f
        .turn(NewTurn {
            run: 2,
            ..send(&item)
        })
        .await;
    assert!(
        matches!(again, Turn::LookAgain(_)),
        "nothing is sent after it: {again:?}"
    );
}

/// Two senders of one run, as after a takeover of the engine: one has read the history before the
/// other was given its turn, and asks after it was answered.
pub async fn nothing_is_sent_after_it_was_done_by_whatever_run(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (attempt, _) = f.sent(&item).await;
    let done = Settlement {
        then: Then::Stay,
        ..settlement(&item, attempt, Outcome::Done("ok".into()))
    };
    assert!(f.settle(done).await);
    for kind in [AttemptKind::Send, AttemptKind::Probe] {
        let second = f
            .turn(NewTurn {
                kind,
                ..send(&item)
            })
            .await;
        assert!(matches!(second, Turn::LookAgain(_)), "{kind:?}: {second:?}");
    }
    assert_eq!(f.logged().await, 1, "and nothing else is in the log");
}

pub async fn an_outcome_is_written_once(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (attempt, _) = f.sent(&item).await;
    let first = settlement(&item, attempt, Outcome::Done("ok".into()));
    assert!(f.settle(first).await);
    let second = Settlement {
        record: Some(to("REJECTED")),
        ..settlement(&item, attempt, Outcome::Refused("no".into()))
    };
    assert!(!f.settle(second).await);
    let view = f.view(&item).await;
    assert_eq!(view.attempts[0].state, AttemptState::Done);
    assert_eq!(view.status, "SCHEDULED");
    let nobody = settlement(&item, AttemptId(1 << 40), Outcome::Done("ok".into()));
    assert!(!f.settle(nobody).await);
}

pub async fn evidence_is_written_even_when_the_run_no_longer_owns_the_item(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let thens = [
        Then::Stay,
        Then::Finish,
        Then::Requeue {
            after: SECOND,
            why: "x".into(),
        },
    ];
    for (n, then) in thens.into_iter().enumerate() {
        let item = f.dispatched(&[&format!("p{n}")]).await.remove(0);
        let (attempt, _) = f.sent(&item).await;
        let gone = f.store().restart_orphaned(&item, 1, "lost", HOUR, 9).await;
        assert!(gone.unwrap());
        let late = Settlement {
            record: Some(to("ACCEPTED")),
            then,
            ..settlement(&item, attempt, Outcome::Done("ok".into()))
        };
        assert!(!f.settle(late.clone()).await, "{late:?}");
        let view = f.view(&item).await;
        assert_eq!(view.attempts[0].state, AttemptState::Done, "{late:?}");
        assert_eq!(view.status, "SCHEDULED", "{late:?}");
        assert_eq!((view.queue_status, view.run), (QueueStatus::Ready, 2));
        assert_eq!(view.finished_at, None);
    }
}

pub async fn a_record_that_may_not_move_stays_while_the_outcome_is_written(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (attempt, _) = f.sent(&item).await;
    let other = Settlement {
        record: Some(StatusMove::new(&["IN_DOUBT"], "ACCEPTED")),
        then: Then::Finish,
        ..settlement(&item, attempt, Outcome::Done("ok".into()))
    };
    assert!(f.settle(other).await);
    let view = f.view(&item).await;
    assert_eq!(view.status, "SCHEDULED");
    assert_eq!(view.attempts[0].state, AttemptState::Done);
    assert!(view.finished_at.is_some());
}

pub async fn a_shorter_wish_for_quiet_never_shortens_a_longer_one(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched(&["a", "b"]).await;
    let turns = f.turns(items.iter().map(send).collect()).await;
    let attempts = super::fixture::given(&turns);
    let breaker = tollgate_core::ports::Author::new("breaker", "too many fail");
    let closed = f.store().close_lane(&bank(), MINUTE, breaker).await;
    closed.unwrap();
    for ((item, (attempt, _)), quiet) in items.iter().zip(attempts).zip([HOUR, SECOND]) {
        f.settle(Settlement {
            close_lane: Some((bank(), quiet)),
            ..settlement(item, attempt, Outcome::retry("429"))
        })
        .await;
    }
    let lane = f.store().lane(&bank()).await.unwrap().unwrap();
    let until = lane.closed_until.expect("the lane is closed");
    assert_eq!(
        lane.closed_by, None,
        "its downstream wants it closed longest"
    );
    let left = until.duration_since(f.now().await).unsigned_abs();
    assert!(left <= HOUR && left > HOUR / 2, "{left:?}");
    f.advance(HOUR).await;
    let after = f.now().await;
    let lane = f.store().lane(&bank()).await.unwrap().unwrap();
    assert!(
        lane.closed_until.is_none_or(|until| until <= after),
        "and it opens by itself"
    );
}

pub async fn whoever_takes_over_from_a_sender_does_not_lose_its_answer(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    for n in 0..10 {
        let item = f.dispatched(&[&format!("p{n}")]).await.remove(0);
        let (attempt, _) = f.sent(&item).await;
        f.advance(SECOND).await;
        let done = Settlement {
            then: Then::Finish,
            ..settlement(&item, attempt, Outcome::Done("ok".into()))
        };
        let (sender, other, mine) = (f.store(), f.store(), item.clone());
        let (settled, history) = tokio::join!(
            tokio::spawn(async move { sender.settle(done).await.unwrap() }),
            tokio::spawn(async move {
                other
                    .take_over(&mine, 1, Duration::ZERO, &lost())
                    .await
                    .unwrap()
            }),
        );
        let told = history.unwrap().past[0].state;
        assert_ne!(told, AttemptState::Open, "answered, or taken over");
        assert!(settled.unwrap(), "whoever was first");
        let view = f.view(&payment(item.id.as_str())).await;
        assert_eq!(view.attempts[0].state, AttemptState::Done);
    }
}

pub async fn a_run_that_does_not_own_the_item_takes_nothing_over(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    f.sent(&item).await;
    f.advance(SECOND).await;
    for run in [0, 2] {
        let history = f
            .store()
            .take_over(&item, run, TOLERANCE, &lost())
            .await
            .unwrap();
        assert_eq!(history.past[0].state, AttemptState::Open, "run {run}");
    }
    let view = f.view(&item).await;
    assert_eq!(view.attempts[0].state, AttemptState::Open);
    // Put back: nobody has claimed the next run yet.
    let back = f.store().put_back(&item, 1, Duration::ZERO, "again").await;
    assert!(back.unwrap());
    for run in [1, 2] {
        let history = f
            .store()
            .take_over(&item, run, TOLERANCE, &lost())
            .await
            .unwrap();
        assert_eq!(history.past[0].state, AttemptState::Open, "run {run}");
    }
    f.dispatch_all().await;
    let history = f
        .store()
        .take_over(&item, 2, TOLERANCE, &lost())
        .await
        .unwrap();
    assert_eq!(history.past[0].state, AttemptState::Unknown);
}
