//! How an operation runs: on a pooled connection, in a task of its own, so that a caller hanging
//! up never cuts a transaction in half; and with a deadline, after which the connection is given
//! up rather than handed to the next with something unfinished on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::{Client, GenericClient, Object, Pool, PoolError, TimeoutType, Transaction};
use futures::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use tollgate_core::ports::{StoreConnections, StoreError, StoreResult};
use tracing::Instrument;

use super::away::Away;
use super::error::{pool_error, store_error};
use crate::clock::MovableTime;
use crate::telemetry::statement;
use crate::urgency::Urgency;

/// So many connections are kept for what is urgent, where there are more than that: turns,
/// settlements (two) and what flows write.
const KEPT_FOR_URGENT: usize = 4;

pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

#[derive(Debug, Clone)]
pub(crate) struct Runner {
    pool: Pool,
    away: Arc<Away>,
    normal: Arc<Semaphore>,
    wait_timeout: Duration,
    deadline: Duration,
    time: MovableTime,
    /// Once a test has moved the time, every connection is told before it is used.
    moved: Arc<AtomicBool>,
}

impl Runner {
    pub(crate) fn new(
        pool: Pool,
        wait_timeout: Duration,
        deadline: Duration,
        time: MovableTime,
    ) -> Self {
        let connections = pool.status().max_size;
        let normal = connections.saturating_sub(KEPT_FOR_URGENT).max(1);
        Self {
            pool,
            away: Arc::default(),
            normal: Arc::new(Semaphore::new(normal)),
            wait_timeout,
            deadline,
            time,
            moved: Arc::default(),
        }
    }

    pub(crate) fn connections(&self) -> StoreConnections {
        let status = self.pool.status();
        StoreConnections {
            most: status.max_size,
            in_use: status.size.saturating_sub(status.available),
            waiting: status.waiting,
        }
    }

    /// Runs one use case as one transaction; returns after its commit. An error means that
    /// nothing was written, or that nobody knows: then it is `Unavailable`.
    pub(crate) async fn in_transaction<T: Send + 'static>(
        &self,
        urgency: Urgency,
        work: impl for<'t> FnOnce(&'t Transaction<'t>) -> BoxFuture<'t, StoreResult<T>> + Send + 'static,
    ) -> StoreResult<T> {
        self.autocommit(urgency, |c| {
            Box::pin(async move {
                let tx = c.transaction().await.map_err(store_error)?;
                // Dropped without a commit, it is rolled back before anything else is sent.
                let done = work(&tx).await?;
                tx.commit().await.map_err(store_error)?;
                Ok(done)
            })
        })
        .await
    }

    /// Runs statements of which each is a transaction of its own.
    pub(crate) async fn autocommit<T: Send + 'static>(
        &self,
        urgency: Urgency,
        work: impl for<'c> FnOnce(&'c mut Client) -> BoxFuture<'c, StoreResult<T>> + Send + 'static,
    ) -> StoreResult<T> {
        // Whoever hangs up while waiting for a connection has asked for nothing yet.
        let (client, permit) = self.connection(urgency).await?;
        let run = in_time(self.clone(), client, permit, work);
        let task = tokio::spawn(run.in_current_span());
        match task.await {
            Ok(done) => done,
            Err(stopped) if stopped.is_panic() => Err(StoreError::Bug(stopped.to_string())),
            Err(stopped) => Err(StoreError::Unavailable(stopped.to_string())),
        }
    }

    async fn connection(
        &self,
        urgency: Urgency,
    ) -> StoreResult<(Client, Option<OwnedSemaphorePermit>)> {
        let permit = match urgency {
            Urgency::Urgent => None,
            Urgency::Normal => {
                let room = Arc::clone(&self.normal).acquire_owned();
                let waited = tokio::time::timeout(self.wait_timeout, room).await;
                let busy = || pool_error(PoolError::Timeout(TimeoutType::Wait));
                Some(waited.map_err(|_| busy())?.map_err(|_| busy())?)
            }
        };
        Ok((self.pooled().await?, permit))
    }

    async fn pooled(&self) -> StoreResult<Client> {
        if self.pool.status().available == 0 {
            self.away.may_try()?;
        }
        match self.pool.get().await {
            Ok(client) => {
                self.away.was_reached();
                Ok(client)
            }
            Err(busy @ PoolError::Timeout(TimeoutType::Wait)) => Err(pool_error(busy)),
            Err(error) => {
                let error = pool_error(error);
                if let StoreError::Unavailable(why) = &error {
                    self.away.was_not_reached(why);
                }
                Err(error)
            }
        }
    }

    /// Tells the session how far a test has moved the time. Costs nothing outside tests.
    async fn set_time(&self, client: &Client) -> StoreResult<()> {
        let offset = self.time.offset_us();
        if offset == 0 && !self.moved.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.moved.store(true, Ordering::Relaxed);
        let set = "SELECT set_config('tollgate.offset_us', $1, false)";
        one(client, set, &[&offset.to_string()]).await.map(drop)
    }
}

async fn in_time<T>(
    runner: Runner,
    mut client: Client,
    permit: Option<OwnedSemaphorePermit>,
    work: impl for<'c> FnOnce(&'c mut Client) -> BoxFuture<'c, StoreResult<T>>,
) -> StoreResult<T> {
    let timed = tokio::time::timeout(runner.deadline, async {
        runner.set_time(&client).await?;
        work(&mut client).await
    })
    .await;
    drop(permit);
    let done = timed.unwrap_or_else(|_| {
        let waited = runner.deadline;
        Err(StoreError::Unavailable(format!(
            "PostgreSQL took longer than {waited:?}"
        )))
    });
    if matches!(done, Err(StoreError::Unavailable(_))) {
        // Broken, or about to break, or with something still under way: nobody else gets it. The
        // server cuts what is unfinished when it sees the connection gone.
        drop(Object::take(client));
    }
    done
}

/// All rows of a statement that stays prepared on its connection.
pub(crate) async fn all(
    c: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
) -> StoreResult<Vec<Row>> {
    let asked = async {
        let prepared = c.prepare_cached(sql).await?;
        c.query(&prepared, params).await
    };
    asked.instrument(statement(sql)).await.map_err(store_error)
}

pub(crate) async fn optional(
    c: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
) -> StoreResult<Option<Row>> {
    let asked = async {
        let prepared = c.prepare_cached(sql).await?;
        c.query_opt(&prepared, params).await
    };
    asked.instrument(statement(sql)).await.map_err(store_error)
}

pub(crate) async fn one(c: &impl GenericClient, sql: &str, params: Params<'_>) -> StoreResult<Row> {
    let asked = async {
        let prepared = c.prepare_cached(sql).await?;
        c.query_one(&prepared, params).await
    };
    asked.instrument(statement(sql)).await.map_err(store_error)
}

pub(crate) async fn execute(
    c: &impl GenericClient,
    sql: &str,
    params: Params<'_>,
) -> StoreResult<u64> {
    let asked = async {
        let prepared = c.prepare_cached(sql).await?;
        c.execute(&prepared, params).await
    };
    asked.instrument(statement(sql)).await.map_err(store_error)
}

/// Of a transaction whose statements look rows up by their keys and do nothing else: they are planned once for each connection
/// and not each time, and only in the way that is right however many rows there are.
pub(crate) async fn by_keys(tx: &impl GenericClient) -> StoreResult<()> {
    let set = "SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off; \
               SET LOCAL enable_bitmapscan = off; SET LOCAL enable_hashjoin = off; \
               SET LOCAL enable_mergejoin = off";
    tx.batch_execute(set).await.map_err(store_error)
}

/// Waits until no other transaction holds this name, and holds it until this one ends.
pub(crate) async fn lock_name(tx: &impl GenericClient, name: &str) -> StoreResult<()> {
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
    execute(tx, lock, &[&name]).await.map(drop)
}

/// The shared time, read when this statement runs: after every lock taken before it.
pub(crate) async fn now(c: &impl GenericClient) -> StoreResult<super::value::Us> {
    Ok(one(c, "SELECT tg_now()", &[]).await?.get(0))
}
