//! `History::failures`: how often an item was tried in vain, which its pauses grow by.

use std::time::Duration;

use tollgate_core::id::Item;
use tollgate_core::item::QueueStatus;
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{NewTurn, Settlement, Then, Turn};

use super::fixture::{Fixture, MINUTE, TOLERANCE, lost, plan, send, settlement};

async fn failures(f: &dyn Fixture, item: &Item) -> u32 {
    let run = f.view(item).await.run;
    let history = f.store().take_over(item, run, TOLERANCE, &lost()).await;
    history.unwrap().failures
}

/// The next run is sent, and goes back to the queue with this outcome.
async fn sent_in_vain(f: &dyn Fixture, item: &Item, outcome: Outcome, disproves: bool) {
    f.dispatch_all().await;
    let view = f.view(item).await;
    let again = NewTurn {
        run: view.run,
        ..send(item)
    };
    let Turn::At { attempt, .. } = f.turn(again).await else {
        panic!("no turn")
    };
    let settlement = Settlement {
        run: view.run,
        disproves,
        then: Then::Requeue {
            after: Duration::ZERO,
            why: "again".into(),
        },
        ..settlement(item, attempt, outcome)
    };
    assert!(f.settle(settlement).await);
}

pub async fn failures_of_an_item_are_counted_and_not_its_runs(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let store = f.store();
    assert_eq!(failures(f, &item).await, 0);
    for run in 1..4 {
        let back = store.put_back(&item, run, Duration::ZERO, "closed").await;
        assert!(back.unwrap());
        f.dispatch_all().await;
    }
    assert_eq!(failures(f, &item).await, 0, "the lane was closed");
    let back = store.put_back_failed(&item, 4, MINUTE, "unreachable").await;
    assert!(back.unwrap());
    let view = f.view(&item).await;
    assert_eq!((view.queue_status, view.run), (QueueStatus::Ready, 5));
    assert_eq!(view.last_error.as_deref(), Some("unreachable"));
    assert_eq!(failures(f, &item).await, 1);
    f.advance(MINUTE).await;
    let (retry, unknown) = (
        || Outcome::retry("429"),
        || Outcome::Unknown("reset".into()),
    );
    let table = [
        (retry(), false, 2),
        (unknown(), false, 3),
        (retry(), true, 3),
        (Outcome::Declined("no funds".into()), false, 3),
        (unknown(), false, 4),
    ];
    for (outcome, disproves, expected) in table {
        let case = format!("{outcome:?}");
        sent_in_vain(f, &item, outcome, disproves).await;
        assert_eq!(failures(f, &item).await, expected, "{case}");
    }
}
