//! What a sender does for its lane when the bank is in trouble, judged by the bank's ledger.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::JoinSet;
use tollgate_core::id::LaneName;
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_core::lane_in_force::LaneState;
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{
    Connection, Connector, ExchangeResult, Health, Missed, NoConnection, Permit, Profile, Request,
};
use tollgate_dispatch::{Sender, Sent};

use crate::cutting::Edge;
use crate::money::{Street, job, promises};

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
    let before = street.lane().await.version;
    send_all(&street, &sender, &ids).await;
    let stopped = street.lane().await;
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
    assert_eq!(street.lane().await.closed_until, None);
    send_all(&street, &sender, &ids).await;
    let closed = street.lane().await;
    let meanwhile = closed.closed_until.unwrap() - Duration::from_millis(1);
    let LaneState::Closed { why, until } = closed.state(meanwhile) else {
        panic!("{closed:?}")
    };
    let told = "lane \"default\" is closed by the breaker: 10 of the last 10 requests failed or were slow: ";
    assert!(why.starts_with(told), "{why}");
    assert_eq!(until, closed.closed_until);
    assert_eq!(actions(&street, "breaker").await, ["LANE_CLOSED"]);
    street.bank.set_faults("".parse().unwrap());
    // The lane opens by the clock, and the gate waits a second because that has jumped.
    street.town.time.advance(Duration::from_mins(1));
    // What was about to be sent again is not, since the clock has jumped: it is asked about.
    for _ in 0..2 {
        send_all(&street, &sender, &ids).await;
    }
    let told = actions(&street, "breaker").await;
    assert_eq!(told, ["LANE_WORKS_AGAIN", "LANE_CLOSED"], "newest first");
    check_paid(&street, &ids).await;
}

/// Says the same to everybody, and is not there or lets nothing out.
#[derive(Clone)]
struct Mute {
    lane: LaneName,
    profile: Profile,
    says: Arc<Mutex<Says>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    Busy,
    Unreachable,
    NotSent,
}

impl Mute {
    fn new(says: Says) -> Self {
        Self {
            lane: LaneName::new("default"),
            profile: promises(true),
            says: Arc::new(Mutex::new(says)),
        }
    }
}

#[async_trait]
impl Connector for Mute {
    fn lane(&self) -> &LaneName {
        &self.lane
    }
    fn profile(&self) -> &Profile {
        &self.profile
    }
    async fn connection(&self) -> Result<Box<dyn Connection>, NoConnection> {
        match *self.says.lock().unwrap() {
            Says::Busy => Err(NoConnection::Busy("all connections busy".into())),
            Says::Unreachable => Err(NoConnection::Unreachable("refused".into())),
            Says::NotSent => Ok(Box::new(self.clone())),
        }
    }
}

#[async_trait]
impl Connection for Mute {
    async fn send(self: Box<Self>, _: Permit, _: &Request) -> Result<ExchangeResult, Missed> {
        Ok(ExchangeResult {
            outcome: Outcome::retry("the connection was closed"),
            health: Health::Untold,
            is_duplicate: false,
        })
    }
    async fn probe(
        self: Box<Self>,
        permit: Permit,
        request: &Request,
    ) -> Result<ExchangeResult, Missed> {
        self.send(permit, request).await
    }
}

/// Our own full pool and a request that never left tell nothing about the bank: neither do they
/// open the breaker nor do they close it.
#[tokio::test(flavor = "multi_thread")]
async fn what_never_reached_the_bank_tells_the_breaker_nothing() {
    let street = Street::new("", true).await;
    street.town.admit("a", "default", 20).await;
    let (ids, mute) = (ids(20), Mute::new(Says::Busy));
    let sender = Arc::new(street.sender_with(Arc::new(mute.clone())));
    let say = |says| *mute.says.lock().unwrap() = says;
    for says in [Says::Busy, Says::NotSent] {
        say(says);
        send_all(&street, &sender, &ids).await;
        assert_eq!(actions(&street, "breaker").await, Vec::<String>::new());
    }
    say(Says::Unreachable);
    send_all(&street, &sender, &ids).await;
    assert_eq!(actions(&street, "breaker").await, ["LANE_CLOSED"]);
    street.town.time.advance(Duration::from_mins(1));
    for says in [Says::NotSent, Says::Busy] {
        say(says);
        send_all(&street, &sender, &ids).await;
        assert_eq!(actions(&street, "breaker").await, ["LANE_CLOSED"]);
    }
    assert_eq!(street.bank.ledger().arrivals(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_is_turned_away_pauses_the_lane_and_proves_nothing() {
    for status in [401, 403, 405] {
        let faults = format!("send 1 of each payment: reset after; probes: {status}");
        let street = Street::new(&faults, false).await;
        street.town.admit("a", "default", 1).await;
        for paused in [false, true] {
            let run = street.claimed("a0").await.run;
            let sent = street.sender().send(&job("a0", run)).await.unwrap();
            assert!(matches!(sent, Sent::Requeued(_)), "{sent:?}");
            let pause = street.lane().await.lane.pause;
            assert_eq!(pause.is_some(), paused, "{status}: {pause:?}");
        }
        let pause = street.lane().await.lane.pause.unwrap();
        assert!(pause.reason.contains(&status.to_string()), "{pause:?}");
        assert_eq!(street.town.item("a0").await.status, "IN_DOUBT");
        street.bank.set_faults("".parse().unwrap());
        check_paid(&street, &["a0".into()]).await;
        assert_eq!(street.sends("a0").len(), 1);
    }
}
