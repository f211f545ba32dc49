//! Whether the file of a day is what its manifest, the store and the database say.

use tollgate_core::archive::{DayState, DayView};

use super::export::unknown;
use super::folder::Folder;
use super::lost::recorded;
use super::manifest::{Manifest, TypeDay};
use super::trouble::{ArchiveError, ArchiveResult};
use super::{Exports, blocking};

#[derive(Debug)]
pub struct Verified {
    pub manifest: Manifest,
    /// Whether every line was compared with the database; false where the day is in files only.
    pub with_database: bool,
}

impl Exports {
    /// Reads all of a day's file. Changes nothing.
    pub async fn verify(&self, of: &TypeDay) -> ArchiveResult<Verified> {
        let (folder, _held) = self.hold().await?;
        let verified = self.read_whole(&folder, of).await;
        self.with_remedy(of, verified).await
    }

    async fn read_whole(&self, folder: &Folder, of: &TypeDay) -> ArchiveResult<Verified> {
        let manifest = self.exported_manifest(folder, of).await?;
        let day = self.day(of).await?;
        let with_database = day.is_some_and(|day| day.state != DayState::Dropped);
        if with_database {
            self.compare(folder, of, &manifest).await?;
        } else {
            self.read_all(folder, &manifest, |_| Ok(())).await?;
        }
        Ok(Verified {
            manifest,
            with_database,
        })
    }

    /// Which of these days deserve a whole look: the manifest is missing or not the one that was written, or the file has
    /// another size. Reads no file whole. None while somebody else works in the folder.
    pub(super) async fn suspects(&self, days: &[DayView]) -> ArchiveResult<Vec<TypeDay>> {
        let exported = days.iter().filter(|day| day.export.is_some());
        let exported: Vec<DayView> = exported.cloned().collect();
        let (folder, held) = match self.hold().await {
            Ok(held) => held,
            Err(ArchiveError::Busy(_)) => return Ok(vec![]),
            // One sentence about the folder is enough.
            Err(_) => return Ok(exported.last().map(TypeDay::from).into_iter().collect()),
        };
        blocking(move || {
            let is_whole = |day: &&DayView| glance(&folder, day).is_ok();
            let suspects = exported.iter().filter(|day| !is_whole(day));
            let suspects = suspects.map(TypeDay::from).collect();
            drop(held);
            Ok(suspects)
        })
        .await
    }

    /// The manifest of a day that was exported. What the store knows of it must be the same.
    pub(super) async fn exported_manifest(
        &self,
        folder: &Folder,
        of: &TypeDay,
    ) -> ArchiveResult<Manifest> {
        let day = self.day(of).await?;
        let found = self.manifest(folder, of).await?;
        let manifest = match (found, &day) {
            (Some(manifest), _) => manifest,
            (None, Some(day)) => return Err(no_manifest(folder, of, day)),
            (None, None) => return Err(unknown(of)),
        };
        if let Some(day) = &day {
            fits(folder, of, &manifest, day)?;
        }
        Ok(manifest)
    }
}

fn glance(folder: &Folder, day: &DayView) -> ArchiveResult<()> {
    let of = TypeDay::from(day);
    let found = folder.manifest(&of)?;
    let manifest = found.ok_or_else(|| no_manifest(folder, &of, day))?;
    fits(folder, &of, &manifest, day)?;
    if folder.size(&manifest.file)? != manifest.bytes {
        let file = folder.shown(&manifest.file);
        return Err(ArchiveError::Mismatch(format!(
            "{file} does not have its recorded size"
        )));
    }
    Ok(())
}

fn no_manifest(folder: &Folder, of: &TypeDay, day: &DayView) -> ArchiveError {
    if day.export.is_none() {
        return ArchiveError::Conflict(format!("{of} is not exported yet"));
    }
    let path = folder.shown(&of.manifest_name());
    ArchiveError::Mismatch(format!("{path} is missing; recover it from a backup"))
}

/// An edited manifest whose file was edited with it is found here: the store has the digest of the export.
fn fits(folder: &Folder, of: &TypeDay, manifest: &Manifest, day: &DayView) -> ArchiveResult<()> {
    let path = folder.shown(&of.manifest_name());
    let wrong = |what: String| Err(ArchiveError::Mismatch(format!("{path} {what}")));
    if let Some(export) = &day.export
        && export.digest != manifest.sha256
    {
        return wrong(format!(
            "has sha256 {}, and the store has recorded {} for this day; recover the manifest and the file from a backup",
            manifest.sha256, export.digest
        ));
    }
    if day.export.is_some() && recorded(day) != manifest.totals {
        return wrong(
            "has other totals than the store has recorded for this day; recover it from a backup"
                .to_owned(),
        );
    }
    Ok(())
}
