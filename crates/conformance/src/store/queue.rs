//! `Queue` after the claim: starts, releases, ends, and what is orphaned; and `Records::item`.

use std::time::Duration;

use tollgate_core::SignedDuration;
use tollgate_core::id::{BatchId, ItemId};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{Claim, Claimed, START_PAUSES, Started, StatusMove};

use super::fixture::{
    Fixture, HOUR, MAX_RETRIES, MINUTE, SECOND, STALE, claim_all, micros, new_item, new_item_at,
    payment, payments, plan, send, signed, start,
};

fn accepted() -> StatusMove {
    StatusMove::new(&["SCHEDULED"], "ACCEPTED")
}

pub async fn an_item_nobody_admitted_is_not_there(f: &dyn Fixture) {
    assert!(f.store().item(&payment("p")).await.unwrap().is_none());
}

pub async fn a_started_item_is_dispatched_whether_its_flow_is_new_or_known(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("new"), new_item("already")]).await;
    let claimed = f.claim(claim_all()).await;
    let before = f.now().await;
    let starts = vec![
        start(&claimed[0], Started::New),
        start(&claimed[1], Started::Already),
    ];
    assert_eq!(f.record(starts).await, 2);
    for id in ["new", "already"] {
        let view = f.view(&payment(id)).await;
        assert_eq!(view.queue_status, QueueStatus::Dispatched);
        assert_eq!(view.exec_flow, Some(payment(id).exec_flow(1)));
        assert!(view.dispatched_at.is_some_and(|at| at >= before));
        assert_eq!((view.retry_count, view.run, view.finished_at), (0, 1, None));
    }
    f.advance(STALE).await;
    assert_eq!(f.claim(claim_all()).await, [], "it is nobody's to claim");
    let batch = f.store().audit(None, 1).await.unwrap().remove(0);
    assert_eq!(batch.item, None, "one entry for the batch");
    assert!(batch.detail.contains("2 started"), "{}", batch.detail);
}

pub async fn a_failed_start_goes_back_with_one_more_retry_and_is_dead_at_the_maximum(
    f: &dyn Fixture,
) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("p")]).await;
    for retry in 1..=MAX_RETRIES {
        let claimed = f.claim(claim_all()).await;
        assert_eq!(claimed.len(), 1, "ready before retry {retry}");
        assert_eq!(claimed[0].run, 1, "a failed start is not a run");
        let failed = Started::Failed(format!("no {retry}"));
        assert_eq!(f.record(vec![start(&claimed[0], failed)]).await, 1);
        let view = f.view(&payment("p")).await;
        assert_eq!(view.retry_count, retry);
        assert_eq!(
            view.last_error.as_deref(),
            Some(format!("no {retry}").as_str())
        );
        let dead = view.queue_status == QueueStatus::Dead;
        assert_eq!(dead, retry == MAX_RETRIES, "after retry {retry}");
        let pause = START_PAUSES.pause_after(retry);
        f.advance(pause.saturating_sub(SECOND)).await;
        assert_eq!(f.claim(claim_all()).await, [], "early after retry {retry}");
        f.advance(SECOND).await;
    }
    f.advance(HOUR).await;
    assert_eq!(f.claim(claim_all()).await, []);
    let trail = f.trail(&payment("p")).await;
    assert_eq!(trail.len(), 3, "each failure leaves a trace: {trail:?}");
}

pub async fn a_start_under_an_old_fence_moves_nothing(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let old = f.claimed_one("p").await;
    f.advance(STALE).await;
    let new = f.claim(claim_all()).await.remove(0);
    for started in [Started::New, Started::Failed("no".into())] {
        assert_eq!(f.record(vec![start(&old, started)]).await, 0);
    }
    let view = f.view(&payment("p")).await;
    assert_eq!(
        (view.queue_status, view.retry_count),
        (QueueStatus::Claimed, 0)
    );
    assert_eq!(f.record(vec![start(&new, Started::New)]).await, 1);
    assert_eq!(f.record(vec![start(&new, Started::New)]).await, 0, "once");
}

pub async fn a_start_that_moved_nothing_keeps_nobody_elses_from_moving(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let real = f.claimed_one("p").await;
    let unknown = Claimed {
        id: ItemId::new("nobody"),
        ..real.clone()
    };
    let starts = vec![start(&unknown, Started::New), start(&real, Started::New)];
    assert_eq!(f.record(starts).await, 1);
}

pub async fn what_a_run_no_longer_owns_is_not_to_be_executed_by_it(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let ids = [
        "claimed",
        "dispatched",
        "later",
        "ended",
        "back",
        "held",
        "unknown",
    ];
    let later = new_item_at("later", f.now().await + signed(5 * SECOND));
    f.place(
        ["claimed", "dispatched", "ended", "back"]
            .map(new_item)
            .to_vec(),
    )
    .await;
    f.place(vec![later]).await;
    let claimed = f.claim(claim_all()).await;
    let started = claimed.iter().filter(|c| c.id.as_str() != "claimed");
    let starts = started.map(|c| start(c, Started::New)).collect();
    assert_eq!(f.record(starts).await, 4);
    let store = f.store();
    assert!(
        store
            .finish(&payment("ended"), 1, accepted())
            .await
            .unwrap()
    );
    assert!(
        store
            .put_back(&payment("back"), 1, HOUR, "waits")
            .await
            .unwrap()
    );
    let runs = |run| ids.map(|id| (ItemId::new(id), run)).to_vec();
    let mut found = store.to_execute(&payments(), runs(1)).await.unwrap();
    found.sort_by(|a, b| a.id.cmp(&b.id));
    let told: Vec<_> = found.iter().map(|it| (it.id.as_str(), it.run)).collect();
    assert_eq!(told, [("claimed", 1), ("dispatched", 1), ("later", 1)]);
    assert_eq!(found[0].context_json, "{\"body\":\"claimed\"}");
    assert_eq!(found[0].delay, Duration::ZERO);
    assert!(
        (4 * SECOND..=5 * SECOND).contains(&found[2].delay),
        "{found:?}"
    );
    let other = store.to_execute(&payments(), runs(2)).await.unwrap();
    assert_eq!(other, [], "the next run has not been claimed");
}

pub async fn a_released_claim_is_ready_again_and_counts_for_nobody(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.claimed_one("p").await;
    assert_eq!(f.release(&claim_all()).await, 1);
    let view = f.view(&payment("p")).await;
    assert_eq!(
        (view.queue_status, view.retry_count, view.run),
        (QueueStatus::Ready, 0, 2),
        "a flow may have been started: it no longer owns the item"
    );
    assert_eq!(view.last_error, None);
    assert_eq!(f.release(&claim_all()).await, 0);
    let next = Claim {
        batch: BatchId::new("BATCH-2"),
        ..claim_all()
    };
    assert_eq!(f.claim(next).await.len(), 1, "at once");
    assert_eq!(
        f.release(&claim_all()).await,
        0,
        "what another batch has claimed is not given back"
    );
    assert_eq!(
        f.view(&payment("p")).await.queue_status,
        QueueStatus::Claimed
    );
}

pub async fn an_item_put_back_is_ready_as_its_next_run_after_the_pause(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let before = f.now().await;
    assert!(
        f.store()
            .put_back(&item, 1, 10 * MINUTE, "no line")
            .await
            .unwrap()
    );
    let view = f.view(&item).await;
    assert_eq!((view.queue_status, view.run), (QueueStatus::Ready, 2));
    assert_eq!(view.last_error.as_deref(), Some("no line"));
    assert_eq!(view.retry_count, 0);
    let pause = micros(before, view.due);
    assert!((600_000_000..630_000_000).contains(&pause), "{pause} us");
    let now = Claim {
        ahead: MINUTE,
        ..claim_all()
    };
    assert_eq!(f.claim(now.clone()).await, []);
    f.advance(10 * MINUTE).await;
    assert_eq!(f.claim(now).await[0].run, 2);
    assert_eq!(f.trail(&item).await.len(), 1);
}

/// What got no turn has lost nothing: it is claimed before whatever is due later, and its history says when it is due.
pub async fn an_item_put_back_in_place_keeps_the_time_at_which_it_was_due(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("p"), new_item("q")]).await;
    let (p, q) = (payment("p"), payment("q"));
    let due = f.view(&p).await.due;
    assert!(due < f.view(&q).await.due);
    f.dispatch_all().await;
    f.advance(MINUTE).await;
    let store = f.store();
    for item in [&q, &p] {
        assert!(store.put_back_in_place(item, 1, "closed").await.unwrap());
        let twice = store.put_back_in_place(item, 1, "closed").await;
        assert!(!twice.unwrap(), "the second run owns it");
    }
    let view = f.view(&p).await;
    assert_eq!((view.queue_status, view.run), (QueueStatus::Ready, 2));
    assert_eq!(
        (view.due, view.last_error.as_deref()),
        (due, Some("closed"))
    );
    let again = f.claim(claim_all()).await;
    let ids: Vec<_> = again.iter().map(|claimed| claimed.id.as_str()).collect();
    assert_eq!(ids, ["p", "q"]);
    assert!(again[0].on_slot && again[0].delay.is_zero(), "{again:?}");
    let doubt = StatusMove::new(&["SCHEDULED"], "IN_DOUBT");
    let history = store.take_over(&p, 2, SECOND, &doubt).await.unwrap();
    assert_eq!((history.due, history.failures), (due, 0));
}

pub async fn a_run_that_does_not_own_the_item_cannot_put_it_back(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("p")]).await;
    let (item, store) = (payment("p"), f.store());
    let put_back = |run| store.put_back(&item, run, SECOND, "no line");
    assert!(!put_back(1).await.unwrap(), "nobody has claimed it");
    f.dispatch_all().await;
    assert!(!put_back(2).await.unwrap(), "another run");
    assert!(put_back(1).await.unwrap());
    assert!(!put_back(1).await.unwrap(), "twice");
    assert_eq!(f.view(&item).await.run, 2);
    f.dispatch_all().await;
    assert!(!put_back(1).await.unwrap(), "the second run owns it");
    assert!(store.finish(&item, 2, accepted()).await.unwrap());
    assert!(!put_back(2).await.unwrap(), "it has ended");
    let nobody = payment("nobody");
    assert!(!store.put_back(&nobody, 1, SECOND, "?").await.unwrap());
    let failed = store.put_back_failed(&nobody, 1, SECOND, "?").await;
    assert!(!failed.unwrap());
}

pub async fn finishing_ends_the_item_and_moves_its_record(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    assert!(f.store().finish(&item, 1, accepted()).await.unwrap());
    let view = f.view(&item).await;
    assert_eq!(view.status, "ACCEPTED");
    assert_eq!(view.queue_status, QueueStatus::Dispatched);
    let finished = view.finished_at.expect("it has ended");
    f.advance(HOUR).await;
    let again = StatusMove::new(&["ACCEPTED", "SCHEDULED"], "REJECTED");
    assert!(
        f.store().finish(&item, 1, again).await.unwrap(),
        "its own end, again"
    );
    let view = f.view(&item).await;
    assert_eq!(
        (view.status.as_str(), view.finished_at),
        ("ACCEPTED", Some(finished))
    );
    assert_eq!(f.claim(claim_all()).await, []);
}

pub async fn finishing_by_another_run_changes_nothing(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("p")]).await;
    let (item, store) = (payment("p"), f.store());
    assert!(!store.finish(&item, 1, accepted()).await.unwrap(), "READY");
    f.dispatch_all().await;
    assert!(!store.finish(&item, 2, accepted()).await.unwrap());
    let view = f.view(&item).await;
    assert_eq!(
        (view.status.as_str(), view.finished_at),
        ("SCHEDULED", None)
    );
    assert!(store.finish(&item, 1, accepted()).await.unwrap());
    assert!(!store.finish(&item, 2, accepted()).await.unwrap());
    let nobody = payment("nobody");
    assert!(!store.finish(&nobody, 1, accepted()).await.unwrap());
}

pub async fn a_record_moves_only_from_where_it_may(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let elsewhere = StatusMove::new(&["IN_DOUBT", "PROCESSING"], "ACCEPTED");
    assert!(f.store().finish(&item, 1, elsewhere).await.unwrap());
    let view = f.view(&item).await;
    assert_eq!(view.status, "SCHEDULED");
    assert!(view.finished_at.is_some());
}

pub async fn a_flow_may_act_before_its_start_was_recorded(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("done"), new_item("back")]).await;
    let claimed = f.claim(claim_all()).await;
    let store = f.store();
    let (done, back) = (payment("done"), payment("back"));
    assert!(store.finish(&done, 1, accepted()).await.unwrap());
    assert!(store.put_back(&back, 1, MINUTE, "closed").await.unwrap());
    let starts = claimed.iter().map(|c| start(c, Started::New)).collect();
    assert_eq!(f.record(starts).await, 0, "the record comes too late");
    let view = f.view(&done).await;
    assert!(view.finished_at.is_some() && view.dispatched_at.is_some());
    assert_eq!(f.view(&back).await.queue_status, QueueStatus::Ready);
}

pub async fn what_was_dispatched_long_ago_without_an_end_is_orphaned(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let old = f.dispatched(&["old", "ended"]).await;
    f.store().finish(&old[1], 1, accepted()).await.unwrap();
    f.advance(MINUTE).await;
    f.dispatched(&["mid"]).await;
    f.advance(2 * MINUTE).await;
    f.dispatched(&["young"]).await;
    let (store, payments) = (f.store(), payments());
    let orphaned = |limit| store.orphaned(&payments, MINUTE, limit);
    let found = orphaned(10).await.unwrap();
    let ids: Vec<_> = found.iter().map(|a| a.id.as_str()).collect();
    assert_eq!(ids, ["old", "mid"], "the longest orphaned first");
    assert_eq!((found[0].run, found[0].retry_count), (1, 0));
    assert_eq!(found[0].flow, payment("old").exec_flow(1));
    assert_eq!(orphaned(1).await.unwrap().len(), 1);
}

pub async fn an_orphaned_item_is_told_even_if_its_body_is_lost(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    f.lose_body(&item).await;
    f.advance(HOUR).await;
    let found = f.store().orphaned(&payments(), MINUTE, 10).await.unwrap();
    assert_eq!(found.len(), 1, "or it would never end");
}

pub async fn an_orphaned_item_is_restarted_as_its_next_run_after_a_pause(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let store = f.store();
    let restart = |run| store.restart_orphaned(&item, run, "its flow failed", MINUTE, MAX_RETRIES);
    assert!(!restart(2).await.unwrap(), "another run");
    let before = f.now().await;
    assert!(restart(1).await.unwrap());
    assert!(!restart(1).await.unwrap(), "it has moved on");
    let view = f.view(&item).await;
    assert_eq!((view.queue_status, view.run), (QueueStatus::Ready, 2));
    assert_eq!(view.retry_count, 1);
    assert_eq!(view.last_error.as_deref(), Some("its flow failed"));
    assert!(view.due >= before + signed(MINUTE));
    assert!(view.due < before + signed(MINUTE) + SignedDuration::from_secs(30));
    assert_eq!(f.trail(&item).await.len(), 1);
}

pub async fn an_orphaned_item_too_often_is_dead(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("p")]).await;
    let (item, store) = (payment("p"), f.store());
    for run in 1..=MAX_RETRIES {
        f.dispatch_all().await;
        let restarted = store.restart_orphaned(&item, run, "lost", MINUTE, MAX_RETRIES);
        assert!(restarted.await.unwrap());
        f.advance(MINUTE).await;
    }
    let view = f.view(&item).await;
    assert_eq!(view.queue_status, QueueStatus::Dead);
    assert_eq!(view.retry_count, MAX_RETRIES);
}

pub async fn an_item_that_may_not_be_restarted_is_dead_at_once_with_the_reason(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let store = f.store();
    let given_up = store.restart_orphaned(&item, 1, "enough", SECOND, 0);
    assert!(given_up.await.unwrap());
    let view = f.view(&item).await;
    assert_eq!(view.queue_status, QueueStatus::Dead);
    assert_eq!(view.last_error.as_deref(), Some("enough"));
    let trail = store.audit(Some(&item), 10).await.unwrap();
    assert_eq!(trail[0].status_after.as_deref(), Some("DEAD"));
}

pub async fn what_has_ended_is_not_restarted(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let store = f.store();
    store.finish(&item, 1, accepted()).await.unwrap();
    let restarted = store.restart_orphaned(&item, 1, "lost", MINUTE, MAX_RETRIES);
    assert!(!restarted.await.unwrap());
    assert!(f.view(&item).await.finished_at.is_some());
}

pub async fn an_item_shows_all_that_is_known_of_it(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (_, at) = f.sent(&item).await;
    let view = f.view(&item).await;
    assert_eq!(view.item, item);
    assert_eq!(view.attempts.len(), 1);
    assert_eq!((view.attempts[0].turn_at, view.attempts[0].run), (at, 1));
    assert_eq!(view.attempts[0].kind, send(&item).kind);
    assert_eq!(view.attempts[0].settled_at, None);
    assert!(view.created_at <= view.claimed_at.unwrap());
    assert!(view.claimed_at <= view.dispatched_at);
    let batch = view.dispatch_batch.as_ref().map(BatchId::as_str);
    assert_eq!(batch, Some("BATCH-1"));
    let newest = f.store().audit(None, 1).await.unwrap().remove(0);
    assert_eq!(
        (&*newest.action, newest.batch),
        ("BATCH_COMPLETE", view.dispatch_batch)
    );
}

pub async fn an_item_moves_to_one_place_whoever_acts_at_once(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    for item in f.dispatched_many(20).await {
        let stores = [f.store(), f.store(), f.store()];
        let moved = tokio::join!(
            stores[0].finish(&item, 1, accepted()),
            stores[1].put_back(&item, 1, SECOND, "closed"),
            stores[2].restart_orphaned(&item, 1, "lost", SECOND, MAX_RETRIES),
        );
        let moved = [moved.0.unwrap(), moved.1.unwrap(), moved.2.unwrap()];
        assert_eq!(moved.iter().filter(|m| **m).count(), 1, "{item}: {moved:?}");
        let view = f.view(&item).await;
        assert_eq!(view.finished_at.is_some(), moved[0], "{item}");
        assert_eq!(view.run, if moved[0] { 1 } else { 2 }, "{item}");
    }
}

pub async fn no_starts_at_all_move_nothing(f: &dyn Fixture) {
    assert_eq!(f.record(vec![]).await, 0);
}
