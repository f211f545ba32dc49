//! `Flows::take_node`, as far as it binds the other ports: a node that was taken over from neither
//! sends nor moves items, and what it had sent is still answered for.

use tollgate_core::item::QueueStatus;
use tollgate_core::outcome::{AttemptState, Outcome};
use tollgate_core::ports::{CallWanted, Settlement, StatusMove, StoreError, StoreResult};

use super::fixture::{
    Fixture, SECOND, TOLERANCE, bank, claim_all, lost, new_item, plan, send, settlement, wanted,
};

/// Another process takes the store over. The fixture's own store does not notice.
async fn another_takes_over(f: &dyn Fixture) {
    f.damage("UPDATE node SET epoch = epoch + 1").await;
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "answers are made where they are judged"
)]
fn fenced<T: std::fmt::Debug>(what: &str, answer: StoreResult<T>) {
    let is_fenced = matches!(answer, Err(StoreError::Fenced(_)));
    assert!(is_fenced, "{what}: {answer:?}");
}

pub async fn a_node_that_was_taken_over_from_neither_sends_nor_moves_items(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let store = f.store();
    store.take_node().await.unwrap();
    let items = f.dispatched(&["waits", "left"]).await;
    let (waits, left) = (&items[0], &items[1]);
    f.sent(left).await;
    f.place(vec![new_item("ready")]).await;
    f.advance(SECOND).await;
    another_takes_over(f).await;

    let done = StatusMove::new(&["SCHEDULED"], "ACCEPTED");
    fenced("turns", store.take_turns(wanted(vec![send(waits)])).await);
    let call = CallWanted {
        lane: bank(),
        lead: SECOND,
        share: rust_decimal::Decimal::ONE,
    };
    fenced("a call's turn", store.take_call_turn(call).await);
    fenced("claims", store.claim(claim_all()).await);
    let taken = store.take_over(left, 1, TOLERANCE, &lost()).await;
    fenced("an attempt taken over", taken);
    let back = store.put_back(waits, 1, SECOND, "why").await;
    fenced("put back", back);
    let back = store.put_back_failed(waits, 1, SECOND, "why").await;
    fenced("put back after a failure", back);
    fenced("held", store.hold(waits, 1).await);
    fenced("finished", store.finish(waits, 1, done).await);
    let restarted = store.restart_orphaned(waits, 1, "why", SECOND, 9).await;
    fenced("restarted", restarted);

    let view = f.view(waits).await;
    assert_eq!((view.queue_status, view.run), (QueueStatus::Dispatched, 1));
    assert!(view.attempts.is_empty() && view.finished_at.is_none());
    let open = f.view(left).await.attempts[0].state;
    assert_eq!(open, AttemptState::Open, "its sender may still be answered");
    assert_eq!(f.logged().await, 1);
}

pub async fn what_a_node_had_sent_is_settled_after_another_took_over(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.store().take_node().await.unwrap();
    let item = f.dispatched_one().await;
    let (attempt, _) = f.sent(&item).await;
    another_takes_over(f).await;
    let done = Settlement {
        record: Some(StatusMove::new(&["SCHEDULED"], "ACCEPTED")),
        ..settlement(&item, attempt, Outcome::Done("ok".into()))
    };
    assert!(f.settle(done).await);
    let view = f.view(&item).await;
    assert_eq!(view.attempts[0].state, AttemptState::Done);
    assert_eq!(view.status, "ACCEPTED");
}

/// On Temporal many processes share a store, and none takes it over.
pub async fn a_process_that_never_took_over_is_never_fenced(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    another_takes_over(f).await;
    let item = f.dispatched_one().await;
    f.sent(&item).await;
}
