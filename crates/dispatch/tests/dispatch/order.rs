//! Who waits at the gate goes by the time at which it was due, whoever came first.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_conformance::postgres::shared;
use tollgate_core::gate::MAX_TOLERANCE;
use tollgate_core::id::{BatchId, LaneName};
use tollgate_core::outcome::AttemptKind;
use tollgate_core::ports::{Claim, StatusMove};
use tollgate_dispatch::{Ask, Gate, GateOptions};

use crate::clock_jumps::Unconnected;
use crate::town::{Town, item, item_type};

const WAITING: usize = 40;

/// A backlog: all are due, and their flows reach the gate in any order. On one thread, so that all of them
/// have asked before the first turn is taken.
#[tokio::test]
async fn after_a_backlog_what_was_due_first_goes_first() {
    goes_by_due_time(&Town::new(100).await).await;
}

#[tokio::test]
async fn after_a_backlog_what_was_due_first_goes_first_on_postgres() {
    let url = shared().database().await;
    goes_by_due_time(&Town::on_postgres(&url, 100).await).await;
}

async fn goes_by_due_time(town: &Town) {
    town.admit("a", "default", WAITING).await;
    let claim = Claim {
        item_type: item_type(),
        lane: LaneName::new("default"),
        batch: BatchId::new("BATCH-1"),
        ahead: Duration::from_hours(1),
        stale_after: Duration::from_hours(10),
        limit: 1000,
        credit_horizon: Duration::from_hours(1),
    };
    assert_eq!(town.store.claim(claim).await.unwrap().len(), WAITING);
    let options = GateOptions {
        // A turn that a busy machine misses is given to somebody else.
        tolerance: MAX_TOLERANCE,
        ..GateOptions::default()
    };
    let gate = Arc::new(Gate::new(town.store.clone(), options));
    let mut asks = vec![];
    for n in (0..WAITING).map(|n| n * 7 % WAITING) {
        asks.push(ask(town, &format!("a{n}")).await);
    }
    let mut sends = JoinSet::new();
    for ask in asks {
        let gate = Arc::clone(&gate);
        sends.spawn(async move {
            let permit = gate.turn(ask.clone(), &mut Unconnected).await.unwrap();
            (permit.turn_at(), ask.due)
        });
    }
    let mut sent = sends.join_all().await;
    sent.sort();
    let due: Vec<_> = sent.iter().map(|(_, due)| *due).collect();
    assert!(due.is_sorted(), "{due:?}");
    let mut apart = due;
    apart.dedup();
    assert_eq!(apart.len(), WAITING, "no two are due at once");
}

/// As a sender asks: by what the store tells of the item.
async fn ask(town: &Town, id: &str) -> Ask {
    let doubt = StatusMove::new(&["SCHEDULED"], "IN_DOUBT");
    let tolerance = Duration::from_millis(8);
    let history = town.store.take_over(&item(id), 1, tolerance, &doubt).await;
    let history = history.unwrap();
    Ask {
        watch: None,
        lane: LaneName::new("default"),
        item: item(id),
        run: 1,
        kind: AttemptKind::Send,
        key: id.to_owned(),
        planned: history.now,
        due: history.due,
        seen: None,
        may_be_late: false,
    }
}
