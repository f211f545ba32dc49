//! Whether anything can be written to the store: tried at most once a second, however many ask.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tollgate_core::ports::Store;

/// How long one answer is good for.
const FRESH: Duration = Duration::from_secs(1);
/// A write that takes longer counts as one that cannot be made.
const PATIENCE: Duration = Duration::from_secs(2);

pub struct WriteCheck {
    store: Arc<dyn Store>,
    /// Held while it is tried: those who ask meanwhile get the same answer.
    last: Mutex<Option<Tried>>,
}

impl std::fmt::Debug for WriteCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteCheck").finish_non_exhaustive()
    }
}

struct Tried {
    at: Instant,
    trouble: Option<String>,
}

impl WriteCheck {
    pub fn new(store: &Arc<dyn Store>) -> Self {
        Self {
            store: Arc::clone(store),
            last: Mutex::default(),
        }
    }

    /// Why nothing can be written, if nothing can.
    pub async fn trouble(&self) -> Option<String> {
        let mut last = self.last.lock().await;
        if let Some(tried) = &*last
            && tried.at.elapsed() < FRESH
        {
            return tried.trouble.clone();
        }
        let trouble = match timeout(PATIENCE, self.store.try_write()).await {
            Ok(written) => written.err().map(|error| error.to_string()),
            Err(_) => Some(format!("a small write took longer than {PATIENCE:?}")),
        };
        let tried = Tried {
            at: Instant::now(),
            trouble: trouble.clone(),
        };
        *last = Some(tried);
        trouble
    }
}
