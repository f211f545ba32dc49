//! Brings a day back from its file into the archive of the database, where everything answers again.

use tollgate_core::archive::{ArchivedItem, DayExport, DayState};
use tollgate_core::ports::{Author, RestoredFor, StoreError};

use super::compare::{next, open};
use super::edges::edge;
use super::folder::Folder;
use super::manifest::{Manifest, TypeDay};
use super::trouble::{ArchiveError, ArchiveResult};
use super::{Exports, LINES_AT_ONCE, changed};

/// What a restore has found to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    Now,
    /// The database has every line of the file.
    AlreadyThere,
    /// It has not left the database.
    NeverGone,
}

impl Restored {
    /// Why there was nothing to restore.
    pub fn why_not(self, of: &TypeDay) -> Option<String> {
        match self {
            Self::Now => None,
            Self::AlreadyThere => Some(format!(
                "{of} is in the database with every item of its file"
            )),
            Self::NeverGone => Some(format!("{of} is in the database")),
        }
    }
}

impl Exports {
    /// All of the file is checked before its first line is written. A restore that was cut off is repeated whole; one of
    /// a day that the database has changes nothing. An exported day of which the database has lost lines gets them back.
    pub async fn restore(
        &self,
        of: &TypeDay,
        what_for: RestoredFor,
        by: &Author,
    ) -> ArchiveResult<Restored> {
        let (folder, _held) = self.hold().await?;
        let restored = self.bring_back(&folder, of, what_for, by).await;
        self.with_remedy(of, restored).await
    }

    async fn bring_back(
        &self,
        folder: &Folder,
        of: &TypeDay,
        what_for: RestoredFor,
        by: &Author,
    ) -> ArchiveResult<Restored> {
        let state = self.day(of).await?.map(|day| day.state);
        if matches!(state, Some(DayState::Open | DayState::Closed)) {
            return Ok(Restored::NeverGone);
        }
        let manifest = self.exported_manifest(folder, of).await?;
        self.may_be_put_back(folder, of, &manifest, what_for)
            .await?;
        let is_exported = state == Some(DayState::Exported);
        if is_exported && self.is_there(folder, of, &manifest).await? {
            return Ok(Restored::AlreadyThere);
        }
        edge("restore-checked");
        let mut reading = open(folder, &manifest.file).await?;
        loop {
            let (lines, rest) = next(reading, LINES_AT_ONCE as usize).await?;
            if lines.is_empty() {
                break;
            }
            let items = items(of, &lines).map_err(ArchiveError::Mismatch)?;
            self.put_back(of, items).await?;
            edge("restore-page");
            reading = rest;
        }
        self.compare(folder, of, &manifest).await?;
        let what = format!("{of} from {}", manifest.file);
        self.audit("ARCHIVE_RESTORED", by, what).await?;
        if is_exported {
            // Its sums never left. An item that moved in meanwhile has opened the day, and it is exported again.
            let export = self.export_now(&manifest).await?;
            let marked = (self.store).mark_exported(&of.item_type, of.day, export);
            if !marked.await? {
                return Err(changed(of));
            }
        } else {
            self.complete(of, &manifest).await?;
        }
        edge("restore-done");
        Ok(Restored::Now)
    }

    /// The file is whole, and the store refuses none of its items.
    async fn may_be_put_back(
        &self,
        folder: &Folder,
        of: &TypeDay,
        manifest: &Manifest,
        what_for: RestoredFor,
    ) -> ArchiveResult<()> {
        let belongs = |lines: Vec<String>| items(of, &lines).map(drop);
        self.read_all(folder, manifest, belongs).await?;
        let mut reading = open(folder, &manifest.file).await?;
        loop {
            let (lines, rest) = next(reading, LINES_AT_ONCE as usize).await?;
            if lines.is_empty() {
                return Ok(());
            }
            let items = items(of, &lines).map_err(ArchiveError::Mismatch)?;
            let (item_type, day) = (&of.item_type, of.day);
            let checked = self.store.check_restore(item_type, day, items, what_for);
            checked.await.map_err(|error| refused(of, error))?;
            reading = rest;
        }
    }

    /// Whether the database has every line of the file.
    async fn is_there(
        &self,
        folder: &Folder,
        of: &TypeDay,
        manifest: &Manifest,
    ) -> ArchiveResult<bool> {
        match self.compare(folder, of, manifest).await {
            Ok(()) => Ok(true),
            Err(ArchiveError::Mismatch(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn put_back(&self, of: &TypeDay, items: Vec<ArchivedItem>) -> ArchiveResult<()> {
        let remembered = self.remembered.contains(&of.item_type);
        let put = self
            .store
            .restore_items(&of.item_type, of.day, items, remembered)
            .await;
        put.map_err(|error| match error {
            // It was not so a moment ago. Noted as a trouble of the day: a part of it is back.
            StoreError::Invalid(why) => ArchiveError::Mismatch(format!(
                "{of} was restored in part: {why}; nothing was overwritten, resolve this conflict and restore the day again"
            )),
            error => error.into(),
        })
    }

    /// With the time of the restore, so that the day is not dropped again at once.
    async fn export_now(&self, manifest: &Manifest) -> ArchiveResult<DayExport> {
        Ok(DayExport {
            file: manifest.file.clone(),
            digest: manifest.sha256.clone(),
            at: self.store.now().await?,
        })
    }

    async fn complete(&self, of: &TypeDay, manifest: &Manifest) -> ArchiveResult<()> {
        let export = self.export_now(manifest).await?;
        let (item_type, day) = (&of.item_type, of.day);
        Ok(self
            .store
            .complete_day(item_type, day, Some(export))
            .await?)
    }
}

fn refused(of: &TypeDay, error: StoreError) -> ArchiveError {
    match error {
        StoreError::Invalid(why) => ArchiveError::Conflict(format!(
            "{of} cannot be restored: {why}; nothing was overwritten"
        )),
        error => error.into(),
    }
}

/// The items of some lines; the error fits behind the name of their file.
pub(super) fn items(of: &TypeDay, lines: &[String]) -> Result<Vec<ArchivedItem>, String> {
    lines.iter().map(|line| item(of, line)).collect()
}

fn item(of: &TypeDay, line: &str) -> Result<ArchivedItem, String> {
    let item: ArchivedItem = serde_json::from_str(line)
        .map_err(|error| format!("has a line that is not an archived item: {error}"))?;
    if (&item.item_type, item.day()) != (&of.item_type, of.day) {
        let (found, day) = (item.item(), item.day());
        return Err(format!(
            "has {found} of {day}, which belongs to another day"
        ));
    }
    Ok(item)
}
