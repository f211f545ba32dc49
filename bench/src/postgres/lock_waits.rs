//! How long anyone on a server waited for a lock, as far as a look every few milliseconds can see.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use tokio::task::JoinHandle;

use super::server::Server;
use super::target;

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Looks until it is asked.
pub(super) struct LockWaits {
    is_over: Arc<AtomicBool>,
    looks: JoinHandle<Result<f64>>,
}

impl LockWaits {
    /// From a database of its own, so that the observer is not among the sessions of the one that is measured.
    pub(super) fn watch(server: &Server) -> Self {
        let is_over = Arc::new(AtomicBool::default());
        let looks = tokio::spawn(longest(server.own_url(), Arc::clone(&is_over)));
        Self { is_over, looks }
    }

    /// The longest that was seen.
    pub(super) async fn longest_ms(self) -> Result<f64> {
        self.is_over.store(true, Ordering::SeqCst);
        self.looks.await?
    }
}

async fn longest(url: String, is_over: Arc<AtomicBool>) -> Result<f64> {
    const LONGEST: &str =
        "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart)) * 1000, 0)::float8
         FROM pg_locks WHERE NOT granted";
    let client = target::connect(&url).await?;
    let mut longest_ms = 0.0_f64;
    while !is_over.load(Ordering::SeqCst) {
        let seen: f64 = client.query_one(LONGEST, &[]).await?.get(0);
        longest_ms = longest_ms.max(seen);
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(longest_ms)
}
