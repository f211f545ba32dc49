//! Exported files: a day whose lines have changed is written again; one that is in a file only is brought back, erased,
//! written and dropped again.

use async_trait::async_trait;
use tollgate_core::archive::{ArchiveDay, ArchivedItem, DayExport, DayState, DayView};
use tollgate_core::erasure::LeftOut;
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{ErasureProgress, ErasureView, StoreError, StoreResult};

use super::Eraser;

/// Which lines of a file are to be erased.
#[async_trait]
pub trait Sought: Send + Sync {
    /// Whether any of a page of them is.
    async fn is_among(&self, items: &[ArchivedItem]) -> StoreResult<bool>;
}

/// To see whether a file can be read.
struct Nothing;

#[async_trait]
impl Sought for Nothing {
    async fn is_among(&self, _: &[ArchivedItem]) -> StoreResult<bool> {
        Ok(false)
    }
}

/// The folder of exports, as an erasure needs it. Each call leaves a complete export, the old one or the new.
#[async_trait]
pub trait ExportedFiles: Send + Sync {
    /// Whether the file of this day has a line that is sought.
    async fn has_any(
        &self,
        item_type: &ItemType,
        day: ArchiveDay,
        sought: &dyn Sought,
    ) -> Result<bool, FileTrouble>;

    /// Brings a day that is in a file only back into the database.
    async fn restore(&self, item_type: &ItemType, day: ArchiveDay) -> Result<(), FileTrouble>;

    /// Writes the file of a day again, and removes the one from before.
    async fn export(&self, item_type: &ItemType, day: ArchiveDay) -> Result<(), FileTrouble>;

    /// Takes a day that was restored out of the database again.
    async fn drop_day(&self, item_type: &ItemType, day: ArchiveDay) -> Result<(), FileTrouble>;
}

/// Why a file was not written again.
#[derive(Debug)]
pub enum FileTrouble {
    /// To be tried again.
    Passing(String),
    /// A person has to put something right, such as a file that is missing.
    Lasting(String),
}

/// How a day of the archive was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// There is no file of it, or it has nothing that is sought.
    No,
    Again,
}

/// An erasure has changed the lines of this day and could not write its file.
pub(super) fn is_outdated(view: &DayView) -> bool {
    view.state == DayState::Closed && view.export.is_some()
}

impl Eraser {
    /// The file of a day whose lines may have changed in the database, or that an erasure before this one could not write.
    /// Without a folder the day is closed again: its file is written as soon as there is one.
    pub(super) async fn file_again(
        &self,
        erasure: &ErasureView,
        item_type: &ItemType,
        day: ArchiveDay,
        may_have_changed: bool,
    ) -> StoreResult<Written> {
        let Some(view) = self.store.archived_day(item_type, day).await? else {
            return Ok(Written::No);
        };
        let is_due = is_outdated(&view) || (may_have_changed && view.state == DayState::Exported);
        let Some(export) = view.export.filter(|_| is_due) else {
            return Ok(Written::No);
        };
        let Some(files) = &self.files else {
            self.store.outdate_export(item_type, day).await?;
            self.leave_out(erasure, item_type, day, without_folder(Some(&export)))
                .await?;
            return Ok(Written::No);
        };
        // After a change of the folder the file is in another one, which nothing reaches.
        let missing = match files.has_any(item_type, day, &Nothing).await {
            Ok(_) => None,
            Err(FileTrouble::Lasting(why)) => Some(why),
            Err(FileTrouble::Passing(why)) => return Err(StoreError::Unavailable(why)),
        };
        let written = files.export(item_type, day).await;
        let written = self.or_dropped(erasure, item_type, day, written).await?;
        if written == Written::Again
            && let Some(why) = missing
        {
            self.leave_out(erasure, item_type, day, elsewhere(&export, &why))
                .await?;
        }
        Ok(written)
    }

    /// A day that is in a file only: true if it was brought back, because a line of it is sought.
    pub(super) async fn brought_back(
        &self,
        erasure: &ErasureView,
        item_type: &ItemType,
        day: ArchiveDay,
        sought: &dyn Sought,
    ) -> StoreResult<bool> {
        let Some(files) = &self.files else {
            let view = self.store.archived_day(item_type, day).await?;
            let export = view.and_then(|it| it.export);
            self.leave_out(erasure, item_type, day, without_folder(export.as_ref()))
                .await?;
            return Ok(false);
        };
        let found = match files.has_any(item_type, day, sought).await {
            Ok(false) => return Ok(false),
            Ok(true) => files.restore(item_type, day).await,
            Err(trouble) => Err(trouble),
        };
        let restored = self.or_left_out(erasure, item_type, day, found).await?;
        Ok(restored == Written::Again)
    }

    /// After [`Eraser::brought_back`] and the erasure of its lines.
    pub(super) async fn file_and_drop(
        &self,
        erasure: &ErasureView,
        item_type: &ItemType,
        day: ArchiveDay,
    ) -> StoreResult<Written> {
        let Some(files) = &self.files else {
            return Ok(Written::No);
        };
        let written = match files.export(item_type, day).await {
            Ok(()) => files.drop_day(item_type, day).await,
            Err(trouble) => Err(trouble),
        };
        self.or_dropped(erasure, item_type, day, written).await
    }

    /// A day that somebody else has dropped meanwhile is looked at again, and nothing of it is left out.
    async fn or_dropped(
        &self,
        erasure: &ErasureView,
        item_type: &ItemType,
        day: ArchiveDay,
        written: Result<(), FileTrouble>,
    ) -> StoreResult<Written> {
        if let Err(FileTrouble::Lasting(_)) = &written {
            let view = self.store.archived_day(item_type, day).await?;
            if view.is_some_and(|view| view.state == DayState::Dropped) {
                return Ok(Written::No);
            }
        }
        self.or_left_out(erasure, item_type, day, written).await
    }

    /// What passes is tried again with the whole piece; what lasts is named, and the erasure goes on.
    async fn or_left_out(
        &self,
        erasure: &ErasureView,
        item_type: &ItemType,
        day: ArchiveDay,
        written: Result<(), FileTrouble>,
    ) -> StoreResult<Written> {
        match written {
            Ok(()) => Ok(Written::Again),
            Err(FileTrouble::Passing(why)) => Err(StoreError::Unavailable(why)),
            Err(FileTrouble::Lasting(why)) => {
                self.leave_out(erasure, item_type, day, why).await?;
                Ok(Written::No)
            }
        }
    }

    async fn leave_out(
        &self,
        erasure: &ErasureView,
        item_type: &ItemType,
        day: ArchiveDay,
        reason: String,
    ) -> StoreResult<()> {
        let item = Item::new(item_type, &ItemId::new(day.to_string()));
        let progress = ErasureProgress {
            left_out: vec![LeftOut { item, reason }],
            ..ErasureProgress::within(erasure.stage)
        };
        self.store.note_erasure(&erasure.id, progress).await
    }
}

fn without_folder(export: Option<&DayExport>) -> String {
    let file = export.map_or("a file", |export| export.file.as_str());
    format!(
        "this day was exported to {file}, and retention.export_dir is not set; set retention.export_dir to the folder that has the file and erase again"
    )
}

fn elsewhere(export: &DayExport, why: &str) -> String {
    let file = &export.file;
    format!(
        "this day was exported to {file}, which could not be read ({why}); the day was written to retention.export_dir again; delete {file} in every other folder that has it"
    )
}
