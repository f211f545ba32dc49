//! Our own HTTP/1.1 connections to one downstream: at most so many open at a time, each carrying
//! one exchange at a time. A connection is used again only after a whole answer; nothing here is
//! sent twice.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tollgate_core::ports::NoLine;

use crate::connection::{Connection, OutRequest, Remote};
use crate::judge::Exchange;

/// How long an idle connection may take to be ready for the next request; it is a matter of
/// microseconds unless it is broken.
const READY_WITHIN: Duration = Duration::from_millis(100);
/// A connection that was quiet for longer is not used again: servers hang up after 5 s and more,
/// and a request that crosses the hang-up ends as Unknown.
const MAX_IDLE: Duration = Duration::from_secs(4);

/// Where the connections go, and how many there may be.
#[derive(Debug)]
pub(crate) struct Pool {
    remote: Remote,
    max_connections: usize,
    /// One permit per leased line. The idle ones need none: a new connection is made only when
    /// none is idle, so leased and idle together stay within the bound.
    free: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub(crate) fn new(remote: Remote, max_connections: usize) -> Self {
        Self {
            remote,
            max_connections,
            free: Arc::new(Semaphore::new(max_connections)),
            idle: Mutex::default(),
        }
    }

    /// A connection ready for one exchange; waits at most `patience` for a free one.
    pub(crate) async fn lease(self: &Arc<Self>, patience: Duration) -> Result<Lease, NoLine> {
        let busy = || format!("all {} lines busy for {patience:?}", self.max_connections);
        let permit = timeout(patience, Arc::clone(&self.free).acquire_owned())
            .await
            .map_err(|_| NoLine::Busy(busy()))?
            .expect("the semaphore is never closed");
        let connection = match self.ready_idle().await {
            Some(connection) => connection,
            None => self.remote.connect().await.map_err(NoLine::Unreachable)?,
        };
        Ok(Lease {
            connection: Some(connection),
            pool: Arc::clone(self),
            _permit: permit,
        })
    }

    async fn ready_idle(&self) -> Option<Connection> {
        while let Some(mut connection) = self.take_idle() {
            if connection.is_ready(READY_WITHIN).await && connection.is_silent() {
                return Some(connection);
            }
        }
        None
    }

    /// The one used last, so that the others grow old and are closed.
    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| {
            !connection.is_closed() && connection.idle_since.elapsed() < MAX_IDLE
        });
        idle.pop()
    }

    fn put_idle(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(connection);
    }
}

/// A connection taken out of the pool. Dropped unused, it goes back; dropped in the middle of an
/// exchange, it is closed.
#[derive(Debug)]
pub(crate) struct Lease {
    connection: Option<Connection>,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// One request and its whole answer, within the time given.
    pub(crate) async fn exchange(mut self, request: OutRequest, within: Duration) -> Exchange {
        let mut connection = self
            .connection
            .take()
            .expect("a lease holds a connection until its one exchange");
        if !connection.is_silent() {
            return Exchange::NotSent("the connection was closed by the other side".into());
        }
        let exchange = timeout(within, connection.exchange(request))
            .await
            .unwrap_or_else(|_| Exchange::Lost(format!("no whole answer within {within:?}")));
        if matches!(exchange, Exchange::Answered(_)) {
            connection.idle_since = Instant::now();
            self.connection = Some(connection);
        }
        exchange
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.put_idle(connection);
        }
    }
}
