//! A process that was stopped before its turn and wakes up when others have gone on: it has read that
//! nothing was sent, and that is no longer true. The bank honours no keys, so a send is a payment.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::{Notify, Semaphore};
use tollgate_conformance::postgres as cluster;
use tollgate_core::gate::DEFAULT_TOLERANCE;
use tollgate_core::id::LaneName;
use tollgate_core::ports::{Connection, Connector, NoConnection, Profile};
use tollgate_dispatch::Sent;

use crate::cutting::Edge;
use crate::money::{Street, job, promises};
use crate::mutants::{Mutant, send_wrongly};
use crate::town::Town;

/// Stops where it has a connection and no turn yet, until it is woken.
struct Stopping {
    inner: Arc<dyn Connector>,
    stopped: Arc<Notify>,
    woken: Arc<Semaphore>,
}

#[async_trait]
impl Connector for Stopping {
    fn lane(&self) -> &LaneName {
        self.inner.lane()
    }
    fn profile(&self) -> &Profile {
        self.inner.profile()
    }
    async fn connection(&self) -> Result<Box<dyn Connection>, NoConnection> {
        self.stopped.notify_one();
        // Closed when it is woken.
        let _ = self.woken.acquire().await;
        self.inner.connection().await
    }
}

/// B sends and is killed before the answer. C takes over what B left: it is Unknown, and its run is
/// still A's.
async fn others_go_on(street: &Street, run: u32) {
    assert!(street.dies("a0", Edge::BeforeAnswer).await, "B is killed");
    let (store, job) = (&street.town.store, job("a0", run));
    loop {
        let in_doubt = &job.moves.in_doubt;
        let left = store.take_over(&job.item, run, DEFAULT_TOLERANCE, in_doubt);
        match left.await.unwrap().busy_for {
            Some(busy) => tokio::time::sleep(busy).await,
            None => break,
        }
    }
    let view = street.town.item("a0").await;
    assert_eq!((view.status.as_str(), view.run), ("IN_DOUBT", run));
}

async fn the_woken_one_only_asks(street: Street) {
    street.town.admit("a", "default", 1).await;
    let run = street.claimed("a0").await.run;
    let (stopped, woken) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let a = street.sender_with(Arc::new(Stopping {
        inner: street.connector(),
        stopped: Arc::clone(&stopped),
        woken: Arc::clone(&woken),
    }));
    let a_job = job("a0", run);
    let others = async {
        stopped.notified().await;
        others_go_on(&street, run).await;
        woken.close();
    };
    let (sent, ()) = tokio::join!(a.send(&a_job), others);
    assert!(
        matches!(sent, Ok(Sent::Done(_))),
        "the bank says so: {sent:?}"
    );
    assert_eq!(street.sends("a0").len(), 1, "B's");
    assert_eq!(street.check("a0").await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_wakes_after_another_has_sent_only_asks() {
    the_woken_one_only_asks(Street::new("", false).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_wakes_after_another_has_sent_only_asks_on_postgresql() {
    let url = cluster::shared().database().await;
    let town = Town::on_postgres(&url, 2000).await;
    the_woken_one_only_asks(Street::of(town, "", promises(false))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_ignores_what_it_has_not_seen_is_found_out_by_a_double() {
    let street = Street::new("", false).await;
    street.town.admit("a", "default", 1).await;
    let run = street.claimed("a0").await.run;
    others_go_on(&street, run).await;
    let mutant = Mutant::IgnoresWhatItHasNotSeen;
    send_wrongly(&street, mutant, &job("a0", run)).await;
    let wrong = street.check("a0").await;
    assert!(wrong.iter().any(|w| w.contains("paid twice")), "{wrong:?}");
}
