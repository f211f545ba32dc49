//! The reconciler: finishes replans that were cut off, and recounts the windows of every lane from
//! the slots, so that room which nobody uses comes back.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::ports::{Store, StoreResult};

use crate::every::Every;
use crate::planning::planner::Planner;

pub struct Reconciler {
    store: Arc<dyn Store>,
    planner: Arc<Planner>,
}

impl std::fmt::Debug for Reconciler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reconciler")
            .field("planner", &self.planner)
            .finish_non_exhaustive()
    }
}

impl Reconciler {
    pub fn new(store: Arc<dyn Store>, planner: Arc<Planner>) -> Self {
        Self { store, planner }
    }

    /// Once at the start, then every `pause`, until told to stop.
    pub async fn run(self, pause: Duration, stop: watch::Receiver<bool>) {
        let mut every = Every::new(pause, stop);
        while every.once(self.reconcile()).await {}
    }

    async fn reconcile(&self) {
        if let Err(error) = self.reconcile_all().await {
            tracing::warn!(%error, "reconciliation failed");
        }
    }

    async fn reconcile_all(&self) -> StoreResult<()> {
        for lane in self.store.lanes().await? {
            self.planner.reconcile(&lane.name).await?;
        }
        Ok(())
    }
}
