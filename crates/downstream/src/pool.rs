//! Our own HTTP/1.1 connections to one downstream: at most so many open at a time, each carrying
//! one exchange at a time. A connection is used again only after a whole answer; nothing here is
//! sent twice.
//!
//! A lease is a place among those connections. It has none while it waits for its turn, so that there are
//! as many as the rate and the latency need, however many wait; see decision 0001.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tollgate_core::gate::HORIZON;
use tollgate_core::ports::{Missed, NoConnection};

use crate::connection::{Connection, OutRequest, Remote};
use crate::judge::Exchange;

/// How long an idle connection may take to be ready for the next request; it is a matter of
/// microseconds unless it is broken.
const READY_WITHIN: Duration = Duration::from_millis(100);
/// A connection that was quiet for longer is not used again: servers hang up after 5 s and more,
/// and a request that crosses the hang-up ends as Unknown.
const MAX_IDLE: Duration = Duration::from_secs(4);
/// How often idle connections are looked through, while there are any.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// A turn's connection is taken so long before the turn at the latest.
const SHORTEST_LEAD: Duration = Duration::from_millis(5);

/// Where the connections go, and how many there may be.
#[derive(Debug)]
pub(crate) struct Pool {
    remote: Remote,
    max_connections: usize,
    /// One permit per lease. The idle connections need none: a new one is made only when none is idle,
    /// so leased and idle together stay within the bound.
    free: Arc<Semaphore>,
    idle: Mutex<Idle>,
    /// Connections that leases hold.
    in_use: AtomicUsize,
    /// Held by the one that opens a connection ahead of all turns; how its last try failed.
    ahead: tokio::sync::Mutex<Option<Failed>>,
    /// The longest that opening took lately, forgotten slowly.
    opening_takes: Mutex<Duration>,
}

#[derive(Debug, Default)]
struct Idle {
    connections: Vec<Connection>,
    is_swept: bool,
}

#[derive(Debug)]
struct Failed {
    at: Instant,
    why: NoConnection,
}

impl Pool {
    pub(crate) fn new(remote: Remote, max_connections: usize) -> Self {
        Self {
            remote,
            max_connections,
            free: Arc::new(Semaphore::new(max_connections)),
            idle: Mutex::default(),
            in_use: AtomicUsize::default(),
            ahead: tokio::sync::Mutex::default(),
            opening_takes: Mutex::new(Duration::ZERO),
        }
    }

    /// A place for one exchange with a downstream that can be reached; waits at most `patience` for a
    /// free one.
    #[tracing::instrument(level = "debug", skip_all)]
    pub(crate) async fn lease(self: &Arc<Self>, patience: Duration) -> Result<Lease, NoConnection> {
        let busy = || {
            format!(
                "all {} connections were busy for {patience:?}",
                self.max_connections
            )
        };
        let permit = timeout(patience, Arc::clone(&self.free).acquire_owned())
            .await
            .map_err(|_| NoConnection::Busy(busy()))?
            .expect("the semaphore is never closed");
        self.reach().await?;
        Ok(Lease {
            held: None,
            pool: Arc::clone(self),
            _permit: permit,
        })
    }

    /// Returns when a connection is idle: a lone turn comes too soon to open one for it. Many who find
    /// none wait for one that is opened, and share its failure; while others are in use, the downstream
    /// is known to be there, and only the one that opens it waits.
    async fn reach(self: &Arc<Self>) -> Result<(), NoConnection> {
        let came = Instant::now();
        if self.has_idle() {
            return Ok(());
        }
        let mut ahead = match self.ahead.try_lock() {
            Ok(ahead) => ahead,
            Err(_) if self.in_use.load(Ordering::Relaxed) > 0 => return Ok(()),
            Err(_) => self.ahead.lock().await,
        };
        if self.has_idle() {
            return Ok(());
        }
        match &*ahead {
            Some(Failed { at, why }) if *at >= came => return Err(why.clone()),
            _ => {}
        }
        let opened = self.open().await;
        *ahead = opened.as_ref().err().map(|why| Failed {
            at: Instant::now(),
            why: why.clone(),
        });
        self.put_idle(opened?);
        Ok(())
    }

    /// An idle one if there is one, and else a new one.
    async fn connection(&self) -> Result<Connection, NoConnection> {
        while let Some(mut connection) = self.take_idle() {
            if connection.is_ready(READY_WITHIN).await && connection.is_silent() {
                return Ok(connection);
            }
        }
        self.open().await
    }

    async fn open(&self) -> Result<Connection, NoConnection> {
        let began = Instant::now();
        let opened = self.remote.connect().await?;
        let mut takes = lock(&self.opening_takes);
        *takes = began.elapsed().max(*takes * 9 / 10);
        Ok(opened)
    }

    /// How long before a turn its connection is taken: so that one can still be opened, and no earlier.
    fn lead(&self) -> Duration {
        (*lock(&self.opening_takes) * 2).clamp(SHORTEST_LEAD, HORIZON)
    }

    fn has_idle(&self) -> bool {
        let mut idle = lock(&self.idle);
        while let Some(last) = idle.connections.last() {
            if last.is_fresh() && last.is_silent() {
                return true;
            }
            idle.connections.pop();
        }
        false
    }

    /// The one used last, so that the others grow old and are closed.
    fn take_idle(&self) -> Option<Connection> {
        let mut idle = lock(&self.idle);
        idle.connections.retain(Connection::is_fresh);
        idle.connections.pop()
    }

    fn put_idle(self: &Arc<Self>, connection: Connection) {
        // A runtime that ends drops its leases, too, and sweeps no more.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let mut idle = lock(&self.idle);
        idle.connections.push(connection);
        if !idle.is_swept {
            idle.is_swept = true;
            runtime.spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Whether any are left.
    fn close_old(&self) -> bool {
        let mut idle = lock(&self.idle);
        idle.connections
            .retain(|connection| connection.is_fresh() && connection.is_silent());
        idle.is_swept = !idle.connections.is_empty();
        idle.is_swept
    }
}

/// Closes idle connections that are old, or that the other side has closed, until there are none.
async fn sweep(pool: Weak<Pool>) {
    loop {
        sleep(SWEEP_EVERY).await;
        match pool.upgrade() {
            Some(pool) if pool.close_old() => {}
            _ => return,
        }
    }
}

impl Connection {
    fn is_fresh(&self) -> bool {
        !self.is_closed() && self.idle_since.elapsed() < MAX_IDLE
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A place among the connections. Dropped unused, its connection goes back; dropped in the middle of
/// an exchange, it is closed.
#[derive(Debug)]
pub(crate) struct Lease {
    held: Option<Held>,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

/// A connection that counts as in use.
#[derive(Debug)]
struct Held {
    connection: Connection,
    _counted: Counted,
}

#[derive(Debug)]
struct Counted(Arc<Pool>);

impl Counted {
    fn of(pool: &Arc<Pool>) -> Self {
        pool.in_use.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(pool))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.in_use.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lease {
    /// Takes or renews the connection for a turn at this time.
    pub(crate) async fn connect_for(&mut self, turn: Instant) -> Result<(), NoConnection> {
        if let Some(start) = turn.checked_sub(self.pool.lead()) {
            sleep_until(start).await;
        }
        self.held = Some(self.renewed().await?);
        Ok(())
    }

    /// What is held if it is still good, and else another one.
    async fn renewed(&mut self) -> Result<Held, NoConnection> {
        if let Some(held) = self.held.take()
            && held.connection.is_silent()
        {
            return Ok(held);
        }
        Ok(Held {
            connection: self.pool.connection().await?,
            _counted: Counted::of(&self.pool),
        })
    }

    /// One request and its whole answer, within the time given. A connection that has died meanwhile is
    /// replaced, if there is time for it before the right to send ends.
    pub(crate) async fn exchange(
        mut self,
        request: OutRequest,
        use_by: Instant,
        within: Duration,
    ) -> Result<Exchange, Missed> {
        let mut held = match timeout_at(use_by, self.renewed()).await {
            Ok(Ok(held)) => held,
            Ok(Err(none)) => return Ok(Exchange::NotSent(none.to_string())),
            Err(_) => {
                let why = "its connection was closed, and another one did not open in time";
                return Err(Missed(why.to_owned()));
            }
        };
        let exchange = held.connection.exchange(request, use_by, within).await?;
        if matches!(exchange, Exchange::Answered(_)) {
            held.connection.idle_since = Instant::now();
            self.held = Some(held);
        }
        Ok(exchange)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            self.pool.put_idle(held.connection);
        }
    }
}
