//! What an erasure does with exported files: looks into them, and has them written again.

use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::actor;
use tollgate_core::archive::ArchiveDay;
use tollgate_core::id::ItemType;
use tollgate_core::ports::{Author, RestoredFor};
use tollgate_dispatch::{ExportedFiles, FileTrouble, Sought};

use super::compare::{check, next, open};
use super::restore::items;
use super::{ArchiveError, ArchiveResult, Exports, LINES_AT_ONCE, TypeDay};

/// Somebody else may be working in the folder: so often it is tried again, and so long it waits in between.
const MOST_TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);

#[async_trait]
impl ExportedFiles for Exports {
    async fn has_any(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        sought: &dyn Sought,
    ) -> Result<bool, FileTrouble> {
        let of = of(item_type, day);
        let mut tries = Tries::default();
        loop {
            match self.any_line(&of, sought).await {
                Ok(any) => return Ok(any),
                Err(error) => tries.another_after(error).await?,
            }
        }
    }

    async fn restore(&self, item_type: &ItemType, day: ArchiveDay) -> Result<(), FileTrouble> {
        let (of, by) = (of(item_type, day), by());
        let mut tries = Tries::default();
        loop {
            let restored = self.restore(&of, RestoredFor::Erasing, &by);
            match restored.await.map(drop) {
                Ok(()) => return Ok(()),
                Err(error) => tries.another_after(error).await?,
            }
        }
    }

    async fn export(&self, item_type: &ItemType, day: ArchiveDay) -> Result<(), FileTrouble> {
        let of = of(item_type, day);
        let mut tries = Tries::default();
        loop {
            match self.export(&of, &by()).await.map(drop) {
                Ok(()) => return Ok(()),
                Err(error) => tries.another_after(error).await?,
            }
        }
    }

    async fn drop_day(&self, item_type: &ItemType, day: ArchiveDay) -> Result<(), FileTrouble> {
        let of = of(item_type, day);
        let mut tries = Tries::default();
        loop {
            match self.drop_day(&of, &by()).await {
                Ok(()) => return Ok(()),
                Err(error) => tries.another_after(error).await?,
            }
        }
    }
}

impl Exports {
    async fn any_line(&self, of: &TypeDay, sought: &dyn Sought) -> ArchiveResult<bool> {
        let (folder, _held) = self.hold().await?;
        let manifest = self.exported_manifest(&folder, of).await?;
        let mut reading = open(&folder, &manifest.file).await?;
        let mut any = false;
        loop {
            let (lines, rest) = next(reading, LINES_AT_ONCE as usize).await?;
            if lines.is_empty() {
                check(&folder, &manifest, rest).await?;
                return Ok(any);
            }
            let file = || folder.shown(&manifest.file);
            let wrong = |why| ArchiveError::Mismatch(format!("{} {why}", file()));
            let items = items(of, &lines).map_err(wrong)?;
            any = any || sought.is_among(&items).await?;
            reading = rest;
        }
    }
}

fn of(item_type: &ItemType, day: ArchiveDay) -> TypeDay {
    TypeDay {
        item_type: item_type.clone(),
        day,
    }
}

fn by() -> Author {
    Author::new(actor::TOLLGATE, "erasure")
}

#[derive(Debug, Default)]
struct Tries(u32);

impl Tries {
    /// Waits for the next try, or says why there is none.
    async fn another_after(&mut self, error: ArchiveError) -> Result<(), FileTrouble> {
        self.0 += 1;
        match error {
            ArchiveError::Busy(_) if self.0 < MOST_TRIES => {
                tokio::time::sleep(PAUSE).await;
                Ok(())
            }
            ArchiveError::Busy(_) | ArchiveError::Store(_) | ArchiveError::Disk(_) => {
                Err(FileTrouble::Passing(error.to_string()))
            }
            ArchiveError::Conflict(_) | ArchiveError::NotFound(_) | ArchiveError::Mismatch(_) => {
                Err(FileTrouble::Lasting(error.to_string()))
            }
        }
    }
}
