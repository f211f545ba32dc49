//! Forgets status checks that are older than anybody asks for, a few parts at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::ports::{Store, StoreResult};

use crate::every::Every;

/// How often it looks.
const PAUSE: Duration = Duration::from_mins(10);
/// At most this many parts are removed at once, and so long it rests in between: nobody's turn
/// waits for it.
const MOST: u32 = 200;
const REST: Duration = Duration::from_millis(50);

pub struct CheckRetention {
    store: Arc<dyn Store>,
    older_than: Duration,
}

impl std::fmt::Debug for CheckRetention {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckRetention")
            .field("older_than", &self.older_than)
            .finish_non_exhaustive()
    }
}

impl CheckRetention {
    pub fn new(store: Arc<dyn Store>, older_than: Duration) -> Self {
        Self { store, older_than }
    }

    /// Once at the start, then every ten minutes, until told to stop.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let mut every = Every::new(PAUSE, stop);
        while every.once(self.forget()).await {}
    }

    async fn forget(&self) {
        if let Err(error) = self.forget_all().await {
            tracing::warn!(%error, "old status checks could not be deleted");
        }
    }

    async fn forget_all(&self) -> StoreResult<()> {
        while self.store.forget_checks(self.older_than, MOST).await? > 0 {
            tokio::time::sleep(REST).await;
        }
        Ok(())
    }
}
