//! A gate that is fenced, as by a handover or a takeover: from that moment on nothing is sent, and nothing is in doubt.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::outcome::AttemptState;
use tollgate_dispatch::{Gate, GateOptions, Sender};

use crate::money::{Street, claim, job, promises};
use crate::town::Town;

/// No more than there are connections: all of them wait at the gate, and none for a connection.
const PAYMENTS: usize = 14;
/// So many may have been sent and have not arrived.
const ON_THE_WAY: usize = 2;
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_a_gate_was_fenced_nothing_more_arrives_and_nothing_is_in_doubt() {
    // A third of a second for all of them: some have their turn when the gate is fenced, and some wait for one.
    let street = Street::of(Town::new(40).await, "", promises(true));
    let store = street.town.store.clone();
    let gate = Arc::new(Gate::new(store.clone(), GateOptions::default()));
    let sender = Sender::new(store.clone(), Arc::clone(&gate), street.connector());
    let sender = Arc::new(sender);
    street.town.admit("a", "default", PAYMENTS).await;
    store.claim(claim(Duration::from_hours(1))).await.unwrap();
    let mut sends = JoinSet::new();
    for n in 0..PAYMENTS {
        let sender = Arc::clone(&sender);
        sends.spawn(async move { sender.send(&job(&format!("a{n}"), 1)).await });
    }
    let ledger = street.bank.ledger();
    ledger.wait_for_arrivals(2).await;
    let before = ledger.arrivals();
    gate.fence("this process hands over");
    tokio::time::timeout(PATIENCE, gate.idle()).await.unwrap();
    let arrived = ledger.arrivals();
    // What was on its way, and no turn that had been taken for later.
    assert!(arrived <= before + ON_THE_WAY, "{before}, then {arrived}");
    let all = tokio::time::timeout(PATIENCE, sends.join_all()).await;
    assert_eq!(all.unwrap().len(), PAYMENTS);
    assert_eq!(ledger.arrivals(), arrived, "sent after it was fenced");
    for n in 0..PAYMENTS {
        let view = street.town.item(&format!("a{n}")).await;
        let uncertain = [AttemptState::Open, AttemptState::Unknown];
        let in_doubt = |state: AttemptState| uncertain.contains(&state);
        let in_doubt = view.attempts.iter().any(|it| in_doubt(it.state));
        assert!(!in_doubt, "{:?}", view.attempts);
    }
}
