//! What connections and pauses between the gate and the socket do to turns, judged by the bank's ledger.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::task::JoinSet;
use tollgate_core::id::LaneName;
use tollgate_core::outcome::AttemptState;
use tollgate_core::ports::{Connector, Heard, Line, NoLine, Permit, Profile, Request};
use tollgate_dispatch::Sent;
use tollgate_downstream::{HttpConnector, HttpOptions};
use tollgate_sandbox::{Bank, BankOptions};

use crate::cutting::Edge;
use crate::money::{Street, job, promises};
use crate::town::Town;

const ITEMS: usize = 200;
const PER_SECOND: u32 = 100;

/// All wait at the gate at once, for two seconds; the bank closes what is idle for a tenth of one. The
/// machine may be too slow for a turn: only those count that were lost for want of a connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_bank_that_closes_idle_connections_costs_at_most_one_turn_in_a_hundred() {
    let bank = Bank::start(BankOptions {
        close_idle_after: Some(Duration::from_millis(100)),
        ..BankOptions::default()
    });
    let bank = bank.unwrap();
    let street = Street {
        town: Town::new(PER_SECOND).await,
        url: bank.url(),
        bank,
        profile: Profile {
            timeout: Duration::from_secs(10),
            ..promises(true)
        },
    };
    let connector = HttpConnector::new(HttpOptions {
        name: "bank".into(),
        url: street.bank.url(),
        lane: LaneName::new("default"),
        profile: street.profile.clone(),
        max_connections: ITEMS,
    });
    let sender = Arc::new(street.sender_with(Arc::new(connector.unwrap())));
    street.town.admit("a", "default", ITEMS).await;
    let mut sends = JoinSet::new();
    for n in 0..ITEMS {
        let id = format!("a{n}");
        let run = street.claimed(&id).await.run;
        let sender = Arc::clone(&sender);
        sends.spawn(async move { sender.send(&job(&id, run)).await.unwrap() });
    }
    sends.join_all().await;
    let mut lost = vec![];
    for n in 0..ITEMS {
        let id = format!("a{n}");
        let view = street.town.item(&id).await;
        let wasted = view.attempts.into_iter().map(|attempt| attempt.detail);
        let is_late = |why: &str| why.contains("the right to send ended");
        lost.extend(wasted.filter(|why| why.contains("connection") && !is_late(why)));
        street.pay(&id, Edge::Never).await;
        assert_eq!(street.check(&id).await, Vec::<String>::new());
    }
    assert!(lost.len() <= ITEMS / 100, "{lost:?}");
}

/// The process is stopped when it has its permit, and goes on when its turn is over.
#[derive(Clone)]
struct Stopped {
    inner: Arc<dyn Connector>,
}

struct StoppedLine(Box<dyn Line>);

async fn until_it_is_over(permit: &Permit) {
    let over = permit.use_by() + Duration::from_millis(1);
    tokio::time::sleep_until(over.into()).await;
}

#[async_trait]
impl Connector for Stopped {
    fn lane(&self) -> &LaneName {
        self.inner.lane()
    }
    fn profile(&self) -> &Profile {
        self.inner.profile()
    }
    async fn line(&self) -> Result<Box<dyn Line>, NoLine> {
        Ok(Box::new(StoppedLine(self.inner.line().await?)))
    }
}

#[async_trait]
impl Line for StoppedLine {
    async fn connect_for(&mut self, turn: Instant) -> Result<(), NoLine> {
        self.0.connect_for(turn).await
    }
    async fn send(self: Box<Self>, permit: Permit, request: &Request) -> Heard {
        until_it_is_over(&permit).await;
        self.0.send(permit, request).await
    }
    async fn probe(self: Box<Self>, permit: Permit, request: &Request) -> Heard {
        until_it_is_over(&permit).await;
        self.0.probe(permit, request).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_stopped_between_the_gate_and_the_socket_sends_nothing_when_it_goes_on() {
    let street = Street::new("send 1 of each payment: reset after", false).await;
    street.town.admit("a", "default", 1).await;
    let stopped = || {
        let inner = street.connector();
        street.sender_with(Arc::new(Stopped { inner }))
    };
    let run = street.claimed("a0").await.run;
    let sent = stopped().send(&job("a0", run)).await.unwrap();
    assert!(matches!(sent, Sent::Requeued(_)), "{sent:?}");
    let view = street.town.item("a0").await;
    let state = (view.attempts[0].state, view.status.as_str());
    assert_eq!(state, (AttemptState::Retry, "SCHEDULED"), "not in doubt");
    assert_eq!(street.bank.ledger().arrivals(), 0);

    // In doubt after a send whose answer is lost: a question that was not asked proves nothing.
    let run = street.claimed("a0").await.run;
    street.sender().send(&job("a0", run)).await.unwrap();
    let run = street.claimed("a0").await.run;
    stopped().send(&job("a0", run)).await.unwrap();
    let view = street.town.item("a0").await;
    let last = view.attempts.last().unwrap();
    assert_eq!(last.state, AttemptState::Unknown);
    assert!(last.detail.starts_with("not asked: "), "{}", last.detail);
    assert_eq!(street.bank.ledger().arrivals(), 1);

    street.pay("a0", Edge::Never).await;
    assert_eq!(street.check("a0").await, Vec::<String>::new());
    assert_eq!(street.town.item("a0").await.status, "ACCEPTED");
}
