//! What an erasure does with exported files: looks into them, and has them written again.

use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::actor;
use tollgate_core::archive::{ArchiveDay, ArchivedItem};
use tollgate_core::id::ItemType;
use tollgate_core::ports::Author;
use tollgate_dispatch::{ExportedFiles, FileTrouble, IsSought};

use super::{ArchiveError, ArchiveResult, Exports, TypeDay};

/// Somebody else may be working in the folder: so often it is tried again, and so long it waits in between.
const MOST_TRIES: u32 = 30;
const PAUSE: Duration = Duration::from_secs(1);

#[async_trait]
impl ExportedFiles for Exports {
    async fn has_any(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        is_sought: IsSought<'_>,
    ) -> Result<bool, FileTrouble> {
        let of = of(item_type, day);
        let mut tries = Tries::default();
        loop {
            match self.any_line(&of, is_sought).await {
                Ok(any) => return Ok(any),
                Err(error) => tries.another_after(error).await?,
            }
        }
    }

    async fn restore(&self, item_type: &ItemType, day: ArchiveDay) -> Result<(), FileTrouble> {
        let of = of(item_type, day);
        let mut tries = Tries::default();
        loop {
            match self.restore(&of, &by()).await.map(drop) {
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
    async fn any_line(&self, of: &TypeDay, is_sought: IsSought<'_>) -> ArchiveResult<bool> {
        let (folder, _held) = self.hold().await?;
        let manifest = self.exported_manifest(&folder, of).await?;
        let mut any = false;
        let look = |lines: Vec<String>| {
            for line in &lines {
                let item: ArchivedItem = serde_json::from_str(line)
                    .map_err(|e| format!("has a line that is not an archived item: {e}"))?;
                any |= is_sought(&item);
            }
            Ok(())
        };
        self.read_all(&folder, &manifest, look).await?;
        Ok(any)
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
