//! A sender whose bank refuses everything, judged by the bank's ledger.

use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate_core::id::LaneName;
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::NewWatch;
use tollgate_core::storm::Limits;
use tollgate_dispatch::{Sender, Sent};

use crate::money::{Street, job};

const PAYMENTS: usize = 60;

async fn watched(street: &Street, limits: Limits) -> Arc<Sender> {
    let watch = NewWatch {
        lane: LaneName::new("default"),
        connector: "bank".into(),
        digest: "one".into(),
        limits,
    };
    let watch = street.town.store.watch(watch).await.unwrap();
    Arc::new(street.sender().watched(watch))
}

/// Sends them all at once; how many were refused.
async fn send_all(street: &Street, sender: &Arc<Sender>) -> usize {
    street.town.admit("a", "default", PAYMENTS).await;
    // All are claimed before the first is sent: a paused lane has nothing to claim.
    let mut jobs = vec![];
    for n in 0..PAYMENTS {
        let id = format!("a{n}");
        let run = street.claimed(&id).await.run;
        jobs.push(job(&id, run));
    }
    let mut sends = JoinSet::new();
    for job in jobs {
        let sender = Arc::clone(sender);
        sends.spawn(async move { sender.send(&job).await.unwrap() });
    }
    let sent = sends.join_all().await;
    let is_refused = |sent: &&Sent| matches!(sent, Sent::Refused(_));
    sent.iter().filter(is_refused).count()
}

/// At a hundred a second 24 turns are out at any time: the horizon is a quarter of a second.
async fn at_a_hundred_a_second(faults: &str) -> Street {
    let street = Street::new(faults, true).await;
    let change = LaneChange {
        max_per_second: Some(100.into()),
        ..LaneChange::default()
    };
    street.town.change("default", change).await;
    street
}

#[tokio::test(flavor = "multi_thread")]
async fn no_sixth_canary_is_sent() {
    let street = at_a_hundred_a_second("sends: 422").await;
    let limits = Limits {
        canary: 5,
        streak: 20,
    };
    let sender = watched(&street, limits).await;
    assert_eq!(send_all(&street, &sender).await, 5);
    assert_eq!(street.bank.ledger().arrivals(), 5);
    assert!(street.lane().await.storm.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_drops_the_turns_that_its_node_has_not_used_yet() {
    let street = at_a_hundred_a_second("sends: 422").await;
    let limits = Limits {
        canary: 0,
        streak: 20,
    };
    let sender = watched(&street, limits).await;
    let refused = send_all(&street, &sender).await;
    assert!((20..=30).contains(&refused), "{refused}");
    assert_eq!(street.bank.ledger().arrivals(), refused);
    let mut ready = 0;
    for n in 0..PAYMENTS {
        let view = street.town.item(&format!("a{n}")).await;
        ready += usize::from(view.status == "SCHEDULED" && view.finished_at.is_none());
    }
    assert_eq!(ready, PAYMENTS - refused, "nothing is lost or in doubt");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_that_refuses_now_and_then_is_left_alone() {
    let street = at_a_hundred_a_second("1 in 2 sends: 422").await;
    let limits = Limits {
        canary: 5,
        streak: 25,
    };
    let sender = watched(&street, limits).await;
    let refused = send_all(&street, &sender).await;
    assert!((10..50).contains(&refused), "{refused}");
    assert_eq!(street.lane().await.storm, None);
}
