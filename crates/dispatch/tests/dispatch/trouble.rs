//! What a sender does for its lane when the bank is in trouble, and what it does not do when the
//! clocks are: judged by the bank's ledger.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::id::LaneName;
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::{Accounts, Lanes};
use tollgate_dispatch::{Sender, Sent};

use crate::cutting::Edge;
use crate::money::{Street, job};

async fn lane(street: &Street) -> LaneInForce {
    let lane = street.town.store.lane(&LaneName::new("default")).await;
    lane.unwrap().unwrap()
}

/// Sends these payments at once, through one sender.
async fn send_all(street: &Street, sender: &Arc<Sender>, ids: &[String]) {
    let mut sends = JoinSet::new();
    for id in ids {
        let run = street.claimed(id).await.run;
        let (sender, job) = (Arc::clone(sender), job(id, run));
        sends.spawn(async move { sender.send(&job).await.unwrap() });
    }
    sends.join_all().await;
}

fn ids(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("a{n}")).collect()
}

async fn actions(street: &Street, actor: &str) -> Vec<String> {
    let entries = street.town.store.audit(None, 100).await.unwrap();
    let mine = entries.into_iter().filter(|entry| entry.actor == actor);
    mine.map(|entry| entry.action).collect()
}

async fn check_paid(street: &Street, ids: &[String]) {
    for id in ids {
        street.pay(id, Edge::Never).await;
        assert_eq!(street.check(id).await, Vec::<String>::new());
        assert_eq!(street.town.item(id).await.status, "ACCEPTED");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_that_takes_nothing_from_us_pauses_its_lane_once_however_many_are_turned_away() {
    let street = Street::new("all: 401", true).await;
    let ended = Pause {
        until: Some("2020-01-01T00:00:00Z".parse().unwrap()),
        ..Pause::now("ops", "long ago")
    };
    let change = LaneChange {
        pause: Some(Some(ended)),
        ..LaneChange::default()
    };
    street.town.change("default", change).await;
    street.town.admit("a", "default", 8).await;
    let (ids, sender) = (ids(8), Arc::new(street.sender()));
    // All are claimed at once, so that nobody resumes the lane between them.
    street.claimed("a0").await;
    let before = lane(&street).await.version;
    send_all(&street, &sender, &ids).await;
    let stopped = lane(&street).await;
    assert_eq!(stopped.version, before + 1, "one version, not one per send");
    let pause = stopped.lane.pause.unwrap();
    assert!(pause.reason.contains("401"), "{pause:?}");
    assert_eq!((pause.actor.as_str(), pause.until), ("sender", None));
    assert!(street.bank.ledger().effective().is_empty());
    street.bank.set_faults("".parse().unwrap());
    check_paid(&street, &ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bank_that_fails_opens_the_breaker_and_one_that_works_again_closes_it() {
    let street = Street::new("all: 500 before", true).await;
    street.town.admit("a", "default", 10).await;
    let (ids, sender) = (ids(10), Arc::new(street.sender()));
    assert_eq!(lane(&street).await.closed_until, None);
    send_all(&street, &sender, &ids).await;
    assert!(lane(&street).await.closed_until.is_some());
    assert_eq!(actions(&street, "breaker").await, ["LANE_CLOSED"]);
    street.bank.set_faults("".parse().unwrap());
    // The lane opens by the clock, and the gate waits a second because that has jumped.
    street.town.time.advance(Duration::from_mins(1));
    send_all(&street, &sender, &ids).await;
    let told = actions(&street, "breaker").await;
    assert_eq!(told, ["BREAKER_CLOSED", "LANE_CLOSED"], "newest first");
    check_paid(&street, &ids).await;
}

/// The bank forgets its keys at once: any second send would be a second payment. Forward the
/// promise is over by the clock; set back behind the first send, the clock proves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_again_when_the_promise_is_over_or_the_clock_cannot_tell() {
    let faults = "send 1 of each payment: reset after; sends: forget-key 0ms";
    let street = Street::new(faults, true).await;
    let hour = 3600;
    for (n, secs) in [hour, hour + 1, 24 * hour, -60, -hour, -24 * hour]
        .into_iter()
        .enumerate()
    {
        let (prefix, id) = (format!("t{n}-"), format!("t{n}-0"));
        street.town.admit(&prefix, "default", 1).await;
        let run = street.claimed(&id).await.run;
        let lost = street.sender().send(&job(&id, run)).await.unwrap();
        assert!(matches!(lost, Sent::Requeued(_)), "{lost:?}");
        let run = street.claimed(&id).await.run;
        let step = Duration::from_secs(i64::unsigned_abs(secs));
        if secs > 0 {
            street.town.time.advance(step);
        } else {
            street.town.time.turn_back(step);
        }
        let sent = street.sender().send(&job(&id, run)).await.unwrap();
        assert!(matches!(sent, Sent::Done(_)), "{secs} s: {sent:?}");
        assert_eq!(street.sends(&id).len(), 1, "{secs} s: asked, not sent");
        assert_eq!(street.check(&id).await, Vec::<String>::new());
    }
}
