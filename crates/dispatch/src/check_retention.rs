//! Forgets status checks that are older than anybody asks for, a few parts at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::ports::{Store, StoreResult};

/// How often it looks.
const EVERY: Duration = Duration::from_mins(10);
/// So many parts are removed at once, and so long it rests in between: nobody's turn waits for it.
const MOST: u32 = 200;
const REST: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy)]
pub struct CheckRetention {
    pub older_than: Duration,
}

impl CheckRetention {
    /// Once at the start, then every ten minutes, until told to stop.
    pub async fn run(self, store: Arc<dyn Store>, mut stop: watch::Receiver<bool>) {
        loop {
            let forgetting = async {
                if let Err(error) = self.forget(&*store).await {
                    tracing::warn!(%error, "old status checks could not be forgotten");
                }
                tokio::time::sleep(EVERY).await;
            };
            tokio::select! {
                () = forgetting => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    async fn forget(self, store: &dyn Store) -> StoreResult<()> {
        while store.forget_checks(self.older_than, MOST).await? > 0 {
            tokio::time::sleep(REST).await;
        }
        Ok(())
    }
}
