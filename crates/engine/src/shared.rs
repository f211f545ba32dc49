//! What the engine thread and the handles share, and why the engine stopped. It runs nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tollgate_core::id::Epoch;
use tollgate_core::ports::{Flows, StoreError, StoreResult};

use crate::options::Options;
use crate::registry::Registry;
use crate::watchers::Watchers;

/// Why the engine no longer runs flows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    Shutdown,
    /// Another node has taken over and goes on with the flows.
    Fenced(String),
    /// Our own mistake, or the shared runtime went away. The next start goes on.
    Died(String),
}

pub(crate) struct Shared {
    pub(crate) flows: Arc<dyn Flows>,
    pub(crate) epoch: Epoch,
    pub(crate) registry: Registry,
    pub(crate) options: Options,
    pub(crate) watchers: Arc<Watchers>,
    /// Something may be due earlier than the loader thinks.
    wake: Notify,
    stop: watch::Sender<Option<Stop>>,
}

impl Shared {
    pub(crate) fn new(
        flows: Arc<dyn Flows>,
        epoch: Epoch,
        registry: Registry,
        options: Options,
    ) -> Self {
        Self {
            flows,
            epoch,
            registry,
            options,
            watchers: Arc::default(),
            wake: Notify::new(),
            stop: watch::channel(None).0,
        }
    }

    /// A flow with this delay was written. What is due later than the next poll is found by it.
    pub(crate) fn due_in(&self, delay: Duration) {
        if delay < self.options.longest_poll {
            self.wake.notify_one();
        }
    }

    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Stops the engine; the first reason stays, and is logged once if it is an error.
    pub(crate) fn stop(&self, reason: Stop) {
        let first = self.stop.send_if_modified(|stop| {
            let first = stop.is_none();
            stop.get_or_insert(reason.clone());
            first
        });
        if !first {
            return;
        }
        self.watchers.close();
        match reason {
            Stop::Shutdown => tracing::info!("the embedded engine stops"),
            Stop::Fenced(why) => {
                tracing::error!(%why, "the embedded engine stops: another node has taken over");
            }
            Stop::Died(why) => tracing::error!(%why, "the embedded engine died; restart the node"),
        }
    }

    pub(crate) fn stop_reason(&self) -> Option<Stop> {
        self.stop.borrow().clone()
    }

    pub(crate) async fn stopped(&self) -> Stop {
        let mut stop = self.stop.subscribe();
        match stop
            .wait_for(Option::is_some)
            .await
            .map(|reason| reason.clone())
        {
            Ok(Some(reason)) => reason,
            Ok(None) | Err(_) => Stop::Died("the engine is gone".to_owned()),
        }
    }

    /// Repeats a store call while the store cannot be used. The pauses grow up to a bound; the
    /// engine's stop ends the tries, and the journal lets the next start repeat what was not
    /// written.
    pub(crate) async fn persist<T, C>(&self, call: impl Fn() -> C + Send) -> StoreResult<T>
    where
        C: Future<Output = StoreResult<T>> + Send,
    {
        let mut tries = 0;
        loop {
            match call().await {
                Err(StoreError::Unavailable(why)) if self.stop_reason().is_none() => {
                    tries += 1;
                    tracing::debug!(%why, tries, "the store cannot be used; trying again");
                    tokio::time::sleep(self.options.store_retry.pause_after(tries)).await;
                }
                decided => return decided,
            }
        }
    }
}
