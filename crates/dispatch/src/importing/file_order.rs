//! A file's order: its chunks are prepared side by side and admitted one after the other, so that its payments are
//! given slots in the order of its lines. The store says which chunks have not ended; what this process has
//! admitted is known at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tollgate_core::id::BulkId;
use tollgate_core::ports::{ChunkId, ChunkTurn, Store, StoreResult};

/// How often the store is asked about chunks that another process may have taken in.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A chunk does not wait longer than this for its turn: its place is another's meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);
/// At most this many files are remembered; the store knows the others.
const MOST_FILES: usize = 64;

pub struct FileOrder {
    store: Arc<dyn Store>,
    /// Up to which chunk everything is admitted.
    admitted: Mutex<HashMap<BulkId, u32>>,
    changed: Notify,
}

impl std::fmt::Debug for FileOrder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileOrder").finish_non_exhaustive()
    }
}

impl FileOrder {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            admitted: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Waits until the chunk may be admitted, or says that another one comes first.
    pub async fn turn(&self, chunk: &ChunkId) -> StoreResult<ChunkTurn> {
        let began = Instant::now();
        let mut look_at = began;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if chunk.number <= 1 || self.is_admitted(&chunk.bulk, chunk.number - 1) {
                return Ok(ChunkTurn::Now);
            }
            if Instant::now() >= look_at {
                let before = self.store.chunks_before(chunk).await?;
                match before.turn(|number| self.is_admitted(&chunk.bulk, number)) {
                    ChunkTurn::Wait if began.elapsed() >= PATIENCE => {
                        return Ok(ChunkTurn::HeldBack);
                    }
                    ChunkTurn::Wait => look_at = Instant::now() + LOOK_EVERY,
                    turn => return Ok(turn),
                }
            }
            let _ = tokio::time::timeout_at(look_at, changed).await;
        }
    }

    /// The chunk is admitted, in its turn, and so is everything before it.
    pub fn admitted(&self, chunk: &ChunkId) {
        let mut admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        if admitted.len() >= MOST_FILES && !admitted.contains_key(&chunk.bulk) {
            admitted.clear();
        }
        let through = admitted.entry(chunk.bulk.clone()).or_default();
        *through = chunk.number.max(*through);
        drop(admitted);
        self.changed.notify_waiters();
    }

    fn is_admitted(&self, bulk: &BulkId, number: u32) -> bool {
        let admitted = self.admitted.lock().unwrap_or_else(PoisonError::into_inner);
        admitted.get(bulk).is_some_and(|through| number <= *through)
    }
}
