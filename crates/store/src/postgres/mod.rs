//! The PostgreSQL store: any number of nodes on one database. Exactness comes from short
//! transactions under row locks, with the database's clock read after the lock.

mod accounts;
mod admission;
mod connection;
mod flows;
mod lanes;
mod queue;
mod records;
mod sends;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use futures::future::BoxFuture;
use rust_decimal::Decimal;
use tollgate_core::gate::DEFAULT_MARGIN;
use tollgate_core::leadership::ProcessId;
use tollgate_core::ports::{
    Boot, Reading, Settlement, SharedClock, StoreConnections, StoreHealth, StoreResult,
};

use crate::clock::MovableTime;
use crate::node::{self, Node};
use crate::store_on::StoreOn;
use crate::urgency::Urgency;
use admission::admissions::Admit;
use connection::group::Group;
use connection::run::{Runner, execute, one};
use connection::value::Us;
use flows::Handouts;
use flows::calls::Calls;
use flows::writes::FlowWrite;
use queue::finish::Finish;
use sends::attempts::LookAt;

/// What can be set about a PostgreSQL store.
#[derive(Clone)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database`. With `?sslmode=require` (or `verify-full`,
    /// which is the same here) TLS is used and the server's certificate checked, chain and name,
    /// against the system's root certificates or those in the file `sslrootcert`; without it the
    /// connection is plain.
    pub url: String,
    /// The share of a lane's hard limit that the gate keeps free.
    pub gate_margin: Decimal,
    /// Seeds the placement of slots on lanes with `spread: "jitter"`.
    pub seed: u64,
    /// So many connections at most. Each node has its own; their sum must fit the server's
    /// `max_connections`.
    pub connections: usize,
    /// How long an operation waits for a free connection before it answers `Unavailable`.
    pub wait_timeout: Duration,
    /// How long opening a connection may take.
    pub connect_timeout: Duration,
    /// How long one statement may take; the server ends it.
    pub statement_timeout: Duration,
    /// How long a statement waits for another transaction's lock.
    pub lock_timeout: Duration,
    /// How long a transaction may stand still, and with it the lanes it has locked, when this
    /// process is stopped in the middle of it. Shorter than `lock_timeout`, so that others get by.
    pub idle_timeout: Duration,
    /// How long a whole operation may take before its connection is given up.
    pub deadline: Duration,
    pub time: MovableTime,
}

impl PostgresOptions {
    pub fn at(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            gate_margin: DEFAULT_MARGIN,
            seed: 0,
            connections: 16,
            wait_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(15),
            lock_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(2),
            deadline: Duration::from_secs(30),
            time: MovableTime::default(),
        }
    }
}

impl fmt::Debug for PostgresOptions {
    /// Without the URL, which holds a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("gate_margin", &self.gate_margin)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

/// All store ports on PostgreSQL.
pub type PostgresStore = StoreOn<Postgres>;

#[derive(Debug)]
pub struct Postgres {
    runner: Runner,
    admissions: Group<Admit>,
    looks: Group<LookAt>,
    settlements: Group<Settlement>,
    ends: Group<Finish>,
    flow_writes: Group<FlowWrite>,
    handouts: Arc<Handouts>,
    gate_margin: Decimal,
    process: ProcessId,
    calls: Arc<Calls>,
    node: Node,
}

impl PostgresStore {
    /// The same database, by the same connections, for one term of a leader.
    fn for_term(&self) -> Self {
        let node = Node::default();
        StoreOn(Postgres {
            ends: connection::open::finishing(&self.runner, &node),
            runner: self.runner.clone(),
            admissions: self.admissions.clone(),
            looks: self.looks.clone(),
            settlements: self.settlements.clone(),
            flow_writes: self.flow_writes.clone(),
            handouts: Arc::clone(&self.handouts),
            gate_margin: self.gate_margin,
            process: self.process,
            calls: Arc::clone(&self.calls),
            node,
        })
    }
}

impl Postgres {
    /// One transaction that only the node in force may make.
    async fn in_force<T: Send + 'static>(
        &self,
        urgency: Urgency,
        work: impl for<'t> FnOnce(&'t Transaction<'t>) -> BoxFuture<'t, StoreResult<T>> + Send + 'static,
    ) -> StoreResult<T> {
        let node = self.node.clone();
        self.runner
            .in_transaction(urgency, move |tx| {
                Box::pin(async move {
                    check_node(tx, &node).await?;
                    work(tx).await
                })
            })
            .await
    }
}

/// That no later node has taken over, and that none does before this transaction ends. The first
/// thing that a transaction does: a takeover waits for those that have asked, and then locks items.
async fn check_node(tx: &Transaction<'_>, node: &Node) -> StoreResult<()> {
    match node.epoch() {
        None => Ok(()),
        Some(ours) => node::check(ours, flows::epoch_in_force(tx).await?),
    }
}

#[async_trait]
impl SharedClock for PostgresStore {
    async fn read_clock(&self) -> StoreResult<Reading> {
        // The timeline is the first eight digits of the name of the file being written.
        const READ: &str = "SELECT tg_now(), CASE WHEN pg_is_in_recovery() THEN '0'
             ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END";
        self.runner
            .autocommit(Urgency::Urgent, |c| {
                Box::pin(async move {
                    let row = one(c, READ, &[]).await?;
                    let timeline = u32::from_str_radix(row.get(1), 16);
                    Ok(Reading {
                        now: row.get::<_, Us>(0).0,
                        timeline: timeline.unwrap_or_default(),
                    })
                })
            })
            .await
    }

    async fn vouch(&self, boot: Option<Boot>) -> StoreResult<()> {
        self.runner
            .in_transaction(Urgency::Urgent, move |tx| {
                Box::pin(async move { sends::eras::vouch(tx, boot.as_ref()).await })
            })
            .await
    }

    async fn open_era(&self, boot: Option<Boot>) -> StoreResult<()> {
        self.runner
            .in_transaction(Urgency::Urgent, move |tx| {
                Box::pin(async move { sends::eras::open(tx, boot.as_ref()).await })
            })
            .await
    }
}

#[async_trait]
impl StoreHealth for PostgresStore {
    async fn try_write(&self) -> StoreResult<()> {
        const WRITE: &str = "UPDATE write_probe SET at = tg_now() WHERE one = 1";
        self.runner
            .autocommit(Urgency::Urgent, |c| {
                Box::pin(async move { execute(c, WRITE, &[]).await.map(drop) })
            })
            .await
    }

    /// What is durable there is the server's to know; it stops by itself.
    async fn broken(&self) -> String {
        std::future::pending().await
    }

    fn connections(&self) -> StoreConnections {
        self.runner.connections()
    }
}
