//! Days of the archive as files: exported, read back, dropped from the database, and restored into it. The rule that
//! nothing breaks: a day leaves the database only when its file was read back and every line was equal.

mod compare;
mod digested;
mod draft;
mod edges;
mod erasing;
mod export;
mod folder;
mod line;
mod lost;
mod manifest;
mod noted;
mod overdue;
mod reading;
mod restore;
mod stranger;
mod trouble;
mod upkeep;
mod verify;

use std::sync::Arc;

use tollgate_core::archive::{DayState, DayView};
use tollgate_core::id::ItemType;
use tollgate_core::ports::{Author, NewAudit, Store};
use tollgate_dispatch::Archiver;

use edges::edge;
use folder::{Folder, Held};
pub use manifest::TypeDay;
pub use overdue::Overdue;
pub use restore::Restored;
use tollgate_config::Config;
pub use trouble::{ArchiveError, ArchiveResult};
pub use upkeep::ExportUpkeep;

/// So many lines are in memory at once.
const LINES_AT_ONCE: u32 = 500;

/// What is done with days and files, by people and by the upkeep.
#[derive(Clone)]
pub struct Exports {
    store: Arc<dyn Store>,
    /// None if no folder is configured.
    folder: Option<Folder>,
    /// Types whose ids are never taken again.
    remembered: Vec<ItemType>,
}

impl std::fmt::Debug for Exports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exports").finish_non_exhaustive()
    }
}

impl Exports {
    pub fn has_folder(&self) -> bool {
        self.folder.is_some()
    }

    fn folder(&self) -> ArchiveResult<&Folder> {
        self.folder.as_ref().ok_or_else(|| {
            let why = "retention.export_dir is not set; set it to a folder and restart the service";
            ArchiveError::Conflict(why.to_owned())
        })
    }

    async fn hold(&self) -> ArchiveResult<(Folder, Held)> {
        let folder = self.folder()?.clone();
        blocking(move || folder.hold().map(|held| (folder, held))).await
    }

    async fn day(&self, of: &TypeDay) -> ArchiveResult<Option<DayView>> {
        Ok(self.store.archived_day(&of.item_type, of.day).await?)
    }

    /// Before the act itself: a crash between the two has it written again rather than not at all.
    async fn audit(&self, action: &str, by: &Author, detail: String) -> ArchiveResult<()> {
        let entry = NewAudit {
            item: None,
            action: action.to_owned(),
            actor: by.actor.clone(),
            detail: format!("{detail}: {}", by.reason),
        };
        Ok(self.store.write_audit(entry).await?)
    }

    /// Whether the store knows this day, or the folder has an export of it.
    pub async fn is_present(&self, of: &TypeDay) -> ArchiveResult<bool> {
        if self.day(of).await?.is_some() {
            return Ok(true);
        }
        let Some(folder) = self.folder.clone() else {
            return Ok(false);
        };
        Ok(self.manifest(&folder, of).await?.is_some())
    }

    /// Removes what a crash in a drop or in a restore has left of a day that is in files only.
    pub(crate) async fn drop_rest(&self, of: &TypeDay) -> ArchiveResult<()> {
        let (_, _held) = self.hold().await?;
        let is_dropped = |day: &DayView| day.state == DayState::Dropped;
        if self.day(of).await?.as_ref().is_some_and(is_dropped) {
            self.store.drop_day(&of.item_type, of.day).await?;
        }
        Ok(())
    }

    /// Removes an exported day from the database, after its file was read back and every line was equal.
    pub(crate) async fn drop_day(&self, of: &TypeDay, by: &Author) -> ArchiveResult<()> {
        let (folder, _held) = self.hold().await?;
        let manifest = self.exported_manifest(&folder, of).await?;
        self.compare(&folder, of, &manifest).await?;
        edge("drop-compared");
        let what = format!("{of} to {}", manifest.file);
        self.audit("ARCHIVE_DROPPED", by, what).await?;
        if !self.store.drop_day(&of.item_type, of.day).await? {
            return Err(changed(of));
        }
        edge("drop-done");
        Ok(())
    }
}

/// As configured.
pub fn exports(config: &Config, store: &Arc<dyn Store>) -> Exports {
    let types = config.retention().unwrap_or_default().into_iter();
    let remembered = types.filter(|of| of.archived.remembered);
    Exports {
        store: Arc::clone(store),
        folder: config.export_dir().map(Folder::at),
        remembered: remembered.map(|of| of.archived.item_type).collect(),
    }
}

pub fn archiver(config: &Config, store: &Arc<dyn Store>) -> Archiver {
    let types = config.retention().unwrap_or_default().into_iter();
    let types = types.map(|of| of.archived).collect();
    Archiver::new(Arc::clone(store), types, config.old_ages())
}

pub fn upkeep(config: &Config, store: &Arc<dyn Store>) -> ExportUpkeep {
    let types = config.retention().unwrap_or_default().into_iter();
    let types = types.map(|of| of.archived).collect();
    ExportUpkeep::new(exports(config, store), types, config.restored_days())
}

/// Files are read and written where nothing else waits.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> ArchiveResult<T> + Send + 'static,
) -> ArchiveResult<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(ArchiveError::Disk(format!("a task ended: {error}"))))
}

fn changed(of: &TypeDay) -> ArchiveError {
    ArchiveError::Busy(format!(
        "{of}: items were moved into this day in the meantime; nothing was dropped, run it again"
    ))
}
