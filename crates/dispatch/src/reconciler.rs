//! The reconciler: finishes replans that were cut off, and recounts the windows of every lane from
//! the slots, so that room which nobody uses comes back.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::ports::{Recounted, Store, StoreResult};

use crate::planner::Planner;

#[derive(Debug)]
pub struct Reconciler {
    planner: Arc<Planner>,
}

impl Reconciler {
    pub fn new(planner: Arc<Planner>) -> Self {
        Self { planner }
    }

    /// Once at the start, then every `pause`, until told to stop.
    pub async fn run(
        self,
        store: Arc<dyn Store>,
        pause: Duration,
        mut stop: watch::Receiver<bool>,
    ) {
        loop {
            if let Err(error) = self.reconcile_all(&*store).await {
                tracing::warn!(%error, "reconciliation failed");
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    async fn reconcile_all(&self, store: &dyn Store) -> StoreResult<()> {
        for lane in store.lanes().await? {
            let recounted = self.planner.reconcile(&lane.name).await?;
            metrics::counter!("tollgate_windows_corrected_total", "lane" => lane.name.to_string())
                .increment(recounted.windows);
            if recounted != Recounted::default() {
                tracing::warn!(lane = %lane.name, %recounted, "counters differed from slots");
            }
        }
        Ok(())
    }
}
