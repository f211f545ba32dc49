//! Writes a day to a file, reads it back, and only then tells the store.

use tollgate_core::archive::{DayExport, DayState};
use tollgate_core::id::ItemId;
use tollgate_core::ports::Author;

use super::draft::Draft;
use super::edges::edge;
use super::folder::Folder;
use super::line::LineHead;
use super::manifest::{Manifest, TypeDay};
use super::trouble::{ArchiveError, ArchiveResult};
use super::{Exports, LINES_AT_ONCE, blocking, changed};

impl Exports {
    /// Every line of the day is in the file when this returns. Repeating it reads the file and changes nothing; a file
    /// that is damaged or not up to date is written again, as long as the database has all of the day.
    pub async fn export(&self, of: &TypeDay, by: &Author) -> ArchiveResult<Manifest> {
        let (folder, _held) = self.hold().await?;
        let day = self.day(of).await?.ok_or_else(|| unknown(of))?;
        match (day.state, &day.export) {
            (DayState::Closed | DayState::Exported, _) => {}
            (DayState::Open, _) => return Err(still_open(of)),
            (DayState::Dropped, export) => return Err(in_files_only(of, export.as_ref())),
        }
        let manifest = match self.already_there(&folder, of).await? {
            Some(manifest) => {
                self.has_all(of, &manifest.totals).await?;
                manifest
            }
            None => {
                let recorded = day.export.as_ref();
                self.refuse_stranger(&folder, of, recorded).await?;
                self.write(&folder, of).await?
            }
        };
        let export = DayExport {
            file: manifest.file.clone(),
            digest: manifest.sha256.clone(),
            at: manifest.exported_at,
        };
        let is_noted = |known: &DayExport| known.digest == export.digest;
        if day.state != DayState::Exported || !day.export.as_ref().is_some_and(is_noted) {
            let what = format!("{of} to {}", manifest.file);
            self.audit("ARCHIVE_EXPORTED", by, what).await?;
            if !(self.store)
                .mark_exported(&of.item_type, of.day, export)
                .await?
            {
                return Err(changed(of));
            }
        }
        edge("export-marked");
        let before = day.export.as_ref();
        self.remove_ours(&folder, of, before, &manifest.file)
            .await?;
        Ok(manifest)
    }

    /// An export that has every line of the database. Anything else in its place is written again.
    async fn already_there(
        &self,
        folder: &Folder,
        of: &TypeDay,
    ) -> ArchiveResult<Option<Manifest>> {
        let found = match self.manifest(folder, of).await {
            Ok(Some(manifest)) => {
                let compared = self.compare(folder, of, &manifest).await;
                compared.map(|()| Some(manifest))
            }
            other => other,
        };
        match found {
            Err(ArchiveError::Mismatch(why)) => {
                tracing::warn!(why, "an export is written again");
                Ok(None)
            }
            found => found,
        }
    }

    async fn write(&self, folder: &Folder, of: &TypeDay) -> ArchiveResult<Manifest> {
        let contents = self.fill(begin(folder, of).await?, of).await?;
        let manifest = Manifest::of(of, contents, self.store.now().await?);
        // Before any manifest names it: what is read back is what the disk has.
        self.compare(folder, of, &manifest).await?;
        edge("export-compared");
        let (folder, of, published) = (folder.clone(), of.clone(), manifest.clone());
        blocking(move || folder.publish(&of, &published)).await?;
        Ok(manifest)
    }

    async fn fill(
        &self,
        mut draft: Draft,
        of: &TypeDay,
    ) -> ArchiveResult<super::manifest::Contents> {
        let mut after: Option<ItemId> = None;
        loop {
            let (item_type, day) = (&of.item_type, of.day);
            let lines = self
                .store
                .archived_lines(item_type, day, after.as_ref(), LINES_AT_ONCE)
                .await?;
            let Some(last) = lines.last() else { break };
            after = Some(id_of(of, last)?);
            draft = blocking(move || draft.push(&lines).map(|()| draft)).await?;
        }
        // Before it has its name, which could be that of a file that counts.
        if let Err(why) = self.has_all(of, &draft.totals()).await {
            blocking(move || draft.discard()).await?;
            return Err(why);
        }
        blocking(move || draft.finish()).await
    }

    pub(super) async fn manifest(
        &self,
        folder: &Folder,
        of: &TypeDay,
    ) -> ArchiveResult<Option<Manifest>> {
        let (folder, of) = (folder.clone(), of.clone());
        blocking(move || folder.manifest(&of)).await
    }
}

async fn begin(folder: &Folder, of: &TypeDay) -> ArchiveResult<Draft> {
    let (folder, of) = (folder.clone(), of.clone());
    blocking(move || folder.begin(&of)).await
}

/// Where the next page begins.
pub(super) fn id_of(of: &TypeDay, line: &str) -> ArchiveResult<ItemId> {
    let head = LineHead::read(line);
    let head = head.map_err(|why| ArchiveError::Mismatch(format!("{of}: a line {why}")))?;
    Ok(ItemId::new(head.id))
}

pub(super) fn unknown(of: &TypeDay) -> ArchiveError {
    let (item_type, day) = (&of.item_type, of.day);
    ArchiveError::NotFound(format!(
        "the archive has no {item_type} that ended on {day}"
    ))
}

pub(super) fn still_open(of: &TypeDay) -> ArchiveError {
    ArchiveError::Busy(format!(
        "{of}: items still move into this day; export it when it is closed"
    ))
}

fn in_files_only(of: &TypeDay, export: Option<&DayExport>) -> ArchiveError {
    let file = export.map_or("a file", |export| export.file.as_str());
    ArchiveError::Conflict(format!(
        "{of} is already in {file} and no longer in the database"
    ))
}
