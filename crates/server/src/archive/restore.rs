//! Brings a day back from its file into the archive of the database, where everything answers again.

use tollgate_core::archive::{ArchivedItem, DayExport, DayState};
use tollgate_core::ports::{Author, StoreError};

use super::compare::{next, open};
use super::edges::edge;
use super::manifest::{Manifest, TypeDay};
use super::trouble::{ArchiveError, ArchiveResult};
use super::{Exports, LINES_AT_ONCE};

impl Exports {
    /// All of the file is checked before its first line is written. A restore that was cut off is repeated whole; one of
    /// a day that the database has changes nothing.
    pub(crate) async fn restore(&self, of: &TypeDay, by: &Author) -> ArchiveResult<()> {
        let (folder, _held) = self.hold().await?;
        let day = self.day(of).await?;
        if day.is_some_and(|day| day.state != DayState::Dropped) {
            return Ok(());
        }
        let manifest = self.exported_manifest(&folder, of).await?;
        let belongs = |lines: Vec<String>| items(of, &lines).map(drop);
        self.read_all(&folder, &manifest, belongs).await?;
        edge("restore-checked");
        let mut reading = open(&folder, &manifest).await?;
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
        self.compare(&folder, of, &manifest).await?;
        let what = format!("{of} from {}", manifest.file);
        self.audit("ARCHIVE_RESTORED", by, what).await?;
        self.complete(of, &manifest).await?;
        edge("restore-done");
        Ok(())
    }

    async fn put_back(&self, of: &TypeDay, items: Vec<ArchivedItem>) -> ArchiveResult<()> {
        let remembered = self.remembered.contains(&of.item_type);
        let put = self
            .store
            .restore_items(&of.item_type, of.day, items, remembered)
            .await;
        put.map_err(|error| match error {
            StoreError::Invalid(why) => ArchiveError::Conflict(format!(
                "{of} cannot be restored: {why}; nothing was overwritten"
            )),
            error => error.into(),
        })
    }

    async fn complete(&self, of: &TypeDay, manifest: &Manifest) -> ArchiveResult<()> {
        // The time of the restore, so that the day is not dropped again at once.
        let export = DayExport {
            file: manifest.file.clone(),
            digest: manifest.sha256.clone(),
            at: self.store.now().await?,
        };
        let (item_type, day) = (&of.item_type, of.day);
        Ok(self
            .store
            .complete_day(item_type, day, Some(export))
            .await?)
    }
}

/// The items of some lines; the error fits behind the name of their file.
fn items(of: &TypeDay, lines: &[String]) -> Result<Vec<ArchivedItem>, String> {
    lines.iter().map(|line| item(of, line)).collect()
}

fn item(of: &TypeDay, line: &str) -> Result<ArchivedItem, String> {
    let item: ArchivedItem = serde_json::from_str(line)
        .map_err(|error| format!("has a line that is not an archived item: {error}"))?;
    if (&item.item_type, item.day()) != (&of.item_type, of.day) {
        let (found, day) = (item.item(), item.day());
        return Err(format!("has {found} of {day}, which is not of this day"));
    }
    Ok(item)
}
