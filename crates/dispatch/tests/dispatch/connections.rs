//! What connections and pauses between the gate and the socket do to turns, judged by the bank's ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::task::JoinSet;
use tollgate_core::id::LaneName;
use tollgate_core::outcome::AttemptState;
use tollgate_core::ports::{
    AttemptView, Connection, Connector, ExchangeResult, Missed, NoConnection, Permit, Profile,
    Request,
};
use tollgate_dispatch::{Sender, Sent};
use tollgate_downstream::{HttpConnector, HttpOptions};
use tollgate_sandbox::{Bank, BankOptions, Dialect};

use crate::cutting::Edge;
use crate::money::{Street, job, promises};
use crate::town::{Town, item};

const ITEMS: usize = 200;
const PER_SECOND: u32 = 100;

/// All wait at the gate at once, for two seconds; the bank closes what is idle for a tenth of one. A busy
/// machine may miss permits, and takes other turns at once; a connection may cost no more than one turn in a hundred.
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
        speaks: Dialect::Contract,
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
    let sent = sends.join_all().await;
    let done = |sent: &&Sent| matches!(sent, Sent::Done(_));
    assert!(
        sent.iter().filter(done).count() >= ITEMS - ITEMS / 100,
        "{sent:?}"
    );
    let mut lost = vec![];
    for n in 0..ITEMS {
        let id = format!("a{n}");
        let view = street.town.item(&id).await;
        let wasted = view.attempts.into_iter().map(|attempt| attempt.detail);
        lost.extend(wasted.filter(|why| why.contains("connection")));
        street.pay(&id, Edge::Never).await;
        assert_eq!(street.check(&id).await, Vec::<String>::new());
    }
    assert!(lost.len() <= ITEMS / 100, "{lost:?}");
}

/// The process is stopped when it has its permit, and goes on when its turn is over: so often, and then
/// no more.
#[derive(Clone)]
struct Stopped {
    inner: Arc<dyn Connector>,
    times: Arc<AtomicU32>,
}

struct StoppedConnection {
    connection: Box<dyn Connection>,
    times: Arc<AtomicU32>,
}

impl StoppedConnection {
    async fn stop(&self, permit: &Permit) {
        let down = |left: u32| left.checked_sub(1);
        let left = self.times.fetch_update(Relaxed, Relaxed, down);
        if left.is_ok() {
            let over = permit.use_by() + Duration::from_millis(1);
            tokio::time::sleep_until(over.into()).await;
        }
    }
}

#[async_trait]
impl Connector for Stopped {
    fn lane(&self) -> &LaneName {
        self.inner.lane()
    }
    fn profile(&self) -> &Profile {
        self.inner.profile()
    }
    async fn connection(&self) -> Result<Box<dyn Connection>, NoConnection> {
        Ok(Box::new(StoppedConnection {
            connection: self.inner.connection().await?,
            times: Arc::clone(&self.times),
        }))
    }
}

#[async_trait]
impl Connection for StoppedConnection {
    async fn connect_for(&mut self, turn: Instant) -> Result<(), NoConnection> {
        self.connection.connect_for(turn).await
    }
    async fn send(
        self: Box<Self>,
        permit: Permit,
        request: &Request,
    ) -> Result<ExchangeResult, Missed> {
        self.stop(&permit).await;
        self.connection.send(permit, request).await
    }
    async fn probe(
        self: Box<Self>,
        permit: Permit,
        request: &Request,
    ) -> Result<ExchangeResult, Missed> {
        self.stop(&permit).await;
        self.connection.probe(permit, request).await
    }
}

impl Street {
    /// Stopped so often between the gate and the socket.
    fn stopped(&self, times: u32) -> Sender {
        self.sender_with(Arc::new(Stopped {
            inner: self.connector(),
            times: Arc::new(AtomicU32::new(times)),
        }))
    }

    async fn failures(&self, id: &str, run: u32) -> u32 {
        let (item, in_doubt) = (item(id), &job(id, run).moves.in_doubt);
        let store = &self.town.store;
        let past = store.take_over(&item, run, Duration::ZERO, in_doubt);
        past.await.unwrap().failures
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permit_that_expired_at_the_socket_costs_one_turn_and_neither_a_pause_nor_a_failure() {
    let street = Street::new("send 1 of each payment: reset after", false).await;
    street.town.admit("a", "default", 1).await;
    let run = street.claimed("a0").await.run;
    let sent = street.stopped(1).send(&job("a0", run)).await.unwrap();
    assert!(matches!(sent, Sent::Requeued(_)), "its answer is lost");
    let attempts = street.town.item("a0").await.attempts;
    let states: Vec<_> = attempts.iter().map(|attempt| attempt.state).collect();
    assert_eq!(states, [AttemptState::Retry, AttemptState::Unknown]);
    assert!(attempts[0].detail.starts_with("not sent: its permit"));
    assert_eq!(street.bank.ledger().arrivals(), 1);

    // A question that was not asked proves nothing, and is asked in the next turn.
    let run = street.claimed("a0").await.run;
    assert_eq!(street.failures("a0", run).await, 1, "the lost answer");
    street.stopped(1).send(&job("a0", run)).await.unwrap();
    let attempts = street.town.item("a0").await.attempts;
    let asked = &attempts[2..];
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_eq!(asked[0].state, AttemptState::Unknown);
    assert!(asked[0].detail.starts_with("not asked: its permit"));
    assert_eq!(street.bank.ledger().arrivals(), 2);

    street.pay("a0", Edge::Never).await;
    assert_eq!(street.check("a0").await, Vec::<String>::new());
    assert_eq!(street.town.item("a0").await.status, "ACCEPTED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_too_busy_for_its_permits_sends_nothing_and_rests_without_a_failure() {
    let street = Street::new("", false).await;
    street.town.admit("a", "default", 1).await;
    let run = street.claimed("a0").await.run;
    let sent = street
        .stopped(u32::MAX)
        .send(&job("a0", run))
        .await
        .unwrap();
    assert!(matches!(sent, Sent::Requeued(_)), "{sent:?}");
    let view = street.town.item("a0").await;
    assert_eq!(
        (view.attempts.len(), view.status.as_str()),
        (8, "SCHEDULED")
    );
    let not_sent = |attempt: &AttemptView| attempt.state == AttemptState::Retry;
    assert!(view.attempts.iter().all(not_sent), "{view:?}");
    assert_eq!(street.bank.ledger().arrivals(), 0);
    let run = street.claimed("a0").await.run;
    assert_eq!(street.failures("a0", run).await, 0);
    street.pay("a0", Edge::Never).await;
    assert_eq!(street.check("a0").await, Vec::<String>::new());
    assert_eq!(street.town.item("a0").await.status, "ACCEPTED");
}
