//! The engine thread's own state, and its way to the shared runtime. It decides nothing about
//! flows.

use std::cell::RefCell;
use std::future::pending;
use std::ops::Deref;
use std::sync::Arc;

use tokio::runtime;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tollgate_core::ports::{StoreError, StoreResult};

use crate::room::Room;
use crate::shared::{Shared, Stop};

/// What every task outside of the engine thread holds: the shared state, and the shutdown's way
/// to know that the task is gone.
pub(crate) struct Tether {
    shared: Arc<Shared>,
    /// Closed when the last holder is gone.
    _outside: mpsc::Sender<()>,
}

impl Tether {
    pub(crate) fn new(shared: Arc<Shared>, outside: mpsc::Sender<()>) -> Self {
        Self {
            shared,
            _outside: outside,
        }
    }
}

impl Deref for Tether {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

pub(crate) struct Local {
    pub(crate) shared: Arc<Tether>,
    /// One per running flow. Fair: a parent that resumes is ahead of a flow not yet loaded.
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) room: RefCell<Room>,
    /// A flow left the room.
    pub(crate) left: Notify,
    runtime: runtime::Handle,
}

impl Local {
    pub(crate) fn new(tether: Tether, runtime: runtime::Handle) -> Self {
        let max_running = usize::try_from(tether.options.max_running).unwrap_or(usize::MAX);
        Self {
            permits: Arc::new(Semaphore::new(max_running.min(Semaphore::MAX_PERMITS))),
            room: RefCell::new(Room::new(tether.options.max_live)),
            left: Notify::new(),
            shared: Arc::new(tether),
            runtime,
        }
    }

    /// Runs work on the shared runtime, so that its timers and connections live there and the
    /// engine thread only polls flows. Never answers `Fenced`: that stops the engine, and the
    /// flow that asked is not polled to its next line.
    ///
    /// Spawned before the first poll, so that flows hold a handle and not the work itself.
    pub(crate) fn outside<T, W>(
        &self,
        work: impl FnOnce(Arc<Tether>) -> W,
    ) -> impl Future<Output = StoreResult<T>>
    where
        T: Send + 'static,
        W: Future<Output = StoreResult<T>> + Send + 'static,
    {
        let task = self.runtime.spawn(work(Arc::clone(&self.shared)));
        self.decided(task)
    }

    async fn decided<T>(&self, task: JoinHandle<StoreResult<T>>) -> StoreResult<T> {
        match task.await {
            Ok(Err(StoreError::Fenced(why))) => self.stop(Stop::Fenced(why)).await,
            Ok(decided) => decided,
            Err(error) if error.is_panic() => {
                Err(StoreError::Bug("a call to the store panicked".to_owned()))
            }
            Err(_) => {
                let why = "the shared runtime is shutting down";
                self.stop(Stop::Died(why.to_owned())).await
            }
        }
    }

    async fn stop<T>(&self, reason: Stop) -> T {
        self.shared.stop(reason);
        pending().await
    }
}
