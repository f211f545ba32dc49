//! Works erasures off, a few rows in a transaction and at a pace that leaves the store to the gate. Each piece notes
//! where it stands, so whoever starts next goes on from there; two at once do not hurt.

mod archive;
mod files;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::erasure::{BodyRules, ErasureStage};
use tollgate_core::id::Item;
use tollgate_core::ports::{ErasureProgress, ErasureView, Purged, Store, StoreError, StoreResult};

pub use files::{ExportedFiles, FileTrouble, Sought};

use crate::every::Every;

/// How often to look for one.
const PAUSE: Duration = Duration::from_millis(500);
/// After a try that failed, doubled with each one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Items in one transaction, and how many are looked up at once.
const ITEMS_AT_ONCE: usize = 20;
const LOOKED_UP_AT_ONCE: u32 = 2000;
/// Rows of other tables that are read at once.
const ROWS_AT_ONCE: u32 = 500;
/// So long it rests between two pieces.
const REST: Duration = Duration::from_millis(5);

pub struct Eraser {
    store: Arc<dyn Store>,
    rules: BodyRules,
    /// None if no folder of exports is configured.
    files: Option<Arc<dyn ExportedFiles>>,
}

impl std::fmt::Debug for Eraser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Eraser").finish_non_exhaustive()
    }
}

impl Eraser {
    pub fn new(
        store: Arc<dyn Store>,
        rules: BodyRules,
        files: Option<Arc<dyn ExportedFiles>>,
    ) -> Self {
        Self {
            store,
            rules,
            files,
        }
    }

    /// Until told to stop. A piece that is cut off has done nothing.
    pub async fn run(self, stop: watch::Receiver<bool>) {
        let mut every = Every::new(PAUSE, stop);
        let mut failed = 0;
        while every.once(async { failed = self.look(failed).await }).await {}
    }

    /// How many tries have failed one after the other, with this one.
    async fn look(&self, failed: u32) -> u32 {
        let Err(error) = self.work_all().await else {
            return 0;
        };
        let wait = rest_after(failed);
        let wait_secs = wait.as_secs();
        let erasure = self.store.erasure_to_do().await.ok().flatten();
        let wish = erasure.as_ref().and_then(|erasure| erasure.wish.as_ref());
        let mut why = match &error {
            // Of a folder, too: what it says is a whole sentence.
            StoreError::Unavailable(why) => why.clone(),
            error => error.to_string(),
        };
        if wish.is_some_and(|wish| wish.is_named_in(&why)) {
            "the error message contains the data to erase, so it is not shown".clone_into(&mut why);
        }
        tracing::warn!(why, wait_secs, "an erasure failed and is retried");
        if let Some(erasure) = erasure {
            self.note_trouble(&erasure, &why).await;
        }
        tokio::time::sleep(wait).await;
        failed.saturating_add(1)
    }

    /// Of the erasure that others wait for. Shown to people until it comes further.
    async fn note_trouble(&self, erasure: &ErasureView, why: &str) {
        if let Err(error) = self.store.note_erasure_trouble(&erasure.id, why).await {
            tracing::warn!(%error, "the failure of an erasure could not be recorded");
        }
    }

    async fn work_all(&self) -> StoreResult<()> {
        while let Some(erasure) = self.store.erasure_to_do().await? {
            match erasure.stage {
                ErasureStage::Items => self.items(&erasure).await?,
                ErasureStage::Customer => self.store.erase_customer(&erasure.id).await?,
                ErasureStage::Notifications => self.news(&erasure).await?,
                ErasureStage::Texts => self.texts(&erasure).await?,
                ErasureStage::Archive | ErasureStage::ArchivedNotifications => {
                    self.archive(&erasure).await?;
                }
                ErasureStage::Purge | ErasureStage::Done => {
                    let purged = self.store.purge().await?;
                    self.end(&erasure, purged).await?;
                    continue;
                }
            }
            self.move_on(&erasure).await?;
        }
        Ok(())
    }

    async fn items(&self, erasure: &ErasureView) -> StoreResult<()> {
        let wish = erasure.wish.as_ref().ok_or_else(|| no_wish(erasure))?;
        let mut after: Option<Item> = match erasure.after.as_str() {
            "" => None,
            place => Some(
                serde_json::from_str(place)
                    .map_err(|e| StoreError::Bug(format!("the place of {}: {e}", erasure.id)))?,
            ),
        };
        loop {
            let found = self
                .store
                .erasure_candidates(wish, after.as_ref(), LOOKED_UP_AT_ONCE)
                .await?;
            let Some(last) = found.last().cloned() else {
                return Ok(());
            };
            for some in found.chunks(ITEMS_AT_ONCE) {
                let erased = self
                    .store
                    .erase_items(&erasure.id, some.to_vec(), self.rules.erase);
                erased.await?;
                tokio::time::sleep(REST).await;
            }
            after = Some(last);
        }
    }

    async fn news(&self, erasure: &ErasureView) -> StoreResult<()> {
        while (self.store)
            .erase_news(&erasure.id, ROWS_AT_ONCE, self.rules.erase)
            .await?
        {
            tokio::time::sleep(REST).await;
        }
        Ok(())
    }

    async fn texts(&self, erasure: &ErasureView) -> StoreResult<()> {
        while self.store.erase_texts(&erasure.id, ROWS_AT_ONCE).await? {
            tokio::time::sleep(REST).await;
        }
        Ok(())
    }

    async fn move_on(&self, erasure: &ErasureView) -> StoreResult<()> {
        let progress = ErasureProgress::to(erasure.stage, erasure.stage.next());
        self.store.note_erasure(&erasure.id, progress).await
    }

    async fn end(&self, erasure: &ErasureView, purged: Purged) -> StoreResult<()> {
        self.store.end_erasure(&erasure.id, purged).await?;
        tracing::info!(erasure = %erasure.id, "the erasure has ended");
        Ok(())
    }
}

/// Such as a folder that is not mounted: it may take hours, and the log should stay readable.
fn rest_after(failed: u32) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(failed));
    doubled.min(LONGEST_WAIT)
}

fn no_wish(erasure: &ErasureView) -> StoreError {
    StoreError::Bug(format!("{} does not say whose data go", erasure.id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_longer_after_each_try_that_failed() {
        let waits = [0, 1, 2, 4, 5, 90].map(|failed| rest_after(failed).as_secs());
        assert_eq!(waits, [1, 2, 4, 16, 30, 30]);
    }
}
