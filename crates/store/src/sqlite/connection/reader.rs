//! Read connections: a few, shared, each used by one reader at a time on a blocking thread.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};
use tokio::sync::Semaphore;
use tollgate_core::ports::{StoreError, StoreResult};

use super::error::Failed;
use super::fault::Fault;
use super::open::{keep_plans, tell_time};
use crate::clock::Clock;

/// So many reads run at once; more wait.
pub(crate) const READERS: usize = 4;

#[derive(Debug, Clone)]
pub(crate) struct Readers {
    idle: Arc<Mutex<Vec<Connection>>>,
    free: Arc<Semaphore>,
    fault: Fault,
}

impl Readers {
    pub(crate) fn open(path: &Path, clock: &Clock, fault: Fault) -> rusqlite::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let idle = (0..READERS)
            .map(|_| {
                let connection = Connection::open_with_flags(path, flags)?;
                connection.busy_timeout(std::time::Duration::from_secs(5))?;
                connection.set_prepared_statement_cache_capacity(64);
                keep_plans(&connection)?;
                tell_time(&connection, clock)?;
                Ok(connection)
            })
            .collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(Self {
            idle: Arc::new(Mutex::new(idle)),
            free: Arc::new(Semaphore::new(READERS)),
            fault,
        })
    }

    pub(crate) fn in_use(&self) -> usize {
        READERS - self.free.available_permits()
    }

    /// Runs a read on one consistent snapshot of the database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        self.read_or_fail(move |c| Ok(work(c)?)).await
    }

    /// The same, for what may fail by itself.
    pub(super) async fn read_or_fail<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> StoreResult<T> {
        let gone = |_| StoreError::Unavailable("the store is closed".into());
        let permit = Arc::clone(&self.free).acquire_owned().await.map_err(gone)?;
        let (idle, fault) = (Arc::clone(&self.idle), self.fault.clone());
        let span = tracing::debug_span!("read");
        let read = move || {
            let (_permit, _span) = (permit, span.entered());
            let taken = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(connection) = taken else {
                return Err(StoreError::Bug("more readers than connections".into()));
            };
            let result = in_snapshot(&connection, work);
            idle.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(connection);
            result.map_err(|error| fault.judge(error))
        };
        tokio::task::spawn_blocking(read)
            .await
            .map_err(|e| StoreError::Bug(format!("a read panicked: {e}")))?
    }
}

fn in_snapshot<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, Failed>,
) -> Result<T, Failed> {
    connection.execute_batch("BEGIN DEFERRED")?;
    let result = work(connection);
    connection.execute_batch("COMMIT")?;
    result
}
