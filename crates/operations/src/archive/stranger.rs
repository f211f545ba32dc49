//! Whether an export in the folder is ours to replace. Two databases that were given one folder must not overwrite each
//! other's files, which are the only copies of days that were dropped.

use std::collections::VecDeque;

use tollgate_core::archive::{ArchivedItem, DayExport};
use tollgate_core::id::ItemId;

use super::compare::{next, open};
use super::folder::Folder;
use super::manifest::{Contents, TypeDay};
use super::trouble::{ArchiveError, ArchiveResult};
use super::{Exports, LINES_AT_ONCE, blocking};

impl Exports {
    /// An export that the store has not recorded is there after a crash, or when items ended late. Then the database has
    /// every item of it. Any other whole export was written by another database.
    pub(super) async fn refuse_stranger(
        &self,
        folder: &Folder,
        of: &TypeDay,
        recorded: Option<&DayExport>,
    ) -> ArchiveResult<()> {
        let manifest = match self.manifest(folder, of).await {
            Ok(Some(manifest)) => manifest,
            Ok(None) | Err(ArchiveError::Mismatch(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        if recorded.is_some_and(|export| export.digest == manifest.sha256) {
            return Ok(());
        }
        match self.read_by_items(folder, of, &manifest.file).await {
            Ok((Belongs::Elsewhere, contents)) if manifest.check(&contents).is_ok() => {
                // Of a database that lost lines, that is the sentence.
                self.has_whole_day(of).await?;
                Err(of_another(of))
            }
            // A damaged file cannot be restored anyway.
            Ok(_) | Err(ArchiveError::Mismatch(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes what earlier exports of this day and crashes have left. A file that is not recorded goes only if all of it was
    /// read and is ours: it may be the only copy of what another database has dropped.
    pub(super) async fn remove_ours(
        &self,
        folder: &Folder,
        of: &TypeDay,
        before: Option<&DayExport>,
        keep: &str,
    ) -> ArchiveResult<()> {
        let (looked, day) = (folder.clone(), of.clone());
        let mut kept = vec![keep.to_owned()];
        for file in blocking(move || looked.files(&day)).await? {
            if file == keep || before.is_some_and(|export| export.file == file) {
                continue;
            }
            match self.read_by_items(folder, of, &file).await {
                Ok((Belongs::Here, _)) => continue,
                Ok((Belongs::Elsewhere, _)) => {
                    tracing::warn!(
                        file,
                        "this export has items of another database; it is not removed"
                    );
                }
                // Nothing is wrong with the file; the next try asks again.
                Err(why @ ArchiveError::Store(_)) => return Err(why),
                Err(why) => {
                    tracing::warn!(%why, file, "this export cannot be read; it is not removed");
                }
            }
            kept.push(file);
        }
        let (folder, of) = (folder.clone(), of.clone());
        blocking(move || folder.remove_others(&of, &kept)).await
    }

    async fn read_by_items(
        &self,
        folder: &Folder,
        of: &TypeDay,
        file: &str,
    ) -> ArchiveResult<(Belongs, Contents)> {
        let mut reading = open(folder, file).await?;
        let (mut belongs, mut ours) = (Belongs::Here, Ours::new(self, of));
        loop {
            let (lines, rest) = next(reading, LINES_AT_ONCE as usize).await?;
            reading = rest;
            if lines.is_empty() {
                let contents = blocking(move || reading.end()).await?;
                return Ok((belongs, contents));
            }
            for line in &lines {
                if belongs == Belongs::Here && !ours.have(&item(of, line)?).await? {
                    belongs = Belongs::Elsewhere;
                }
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Belongs {
    /// The database has every item of the file.
    Here,
    Elsewhere,
}

/// The items of a day in the database, asked for in the order of their ids.
struct Ours<'e> {
    exports: &'e Exports,
    of: &'e TypeDay,
    page: VecDeque<ArchivedItem>,
    after: Option<ItemId>,
}

impl<'e> Ours<'e> {
    fn new(exports: &'e Exports, of: &'e TypeDay) -> Self {
        Self {
            exports,
            of,
            page: VecDeque::new(),
            after: None,
        }
    }

    async fn have(&mut self, wanted: &ArchivedItem) -> ArchiveResult<bool> {
        loop {
            match self.page.front() {
                Some(first) if first.id < wanted.id => drop(self.page.pop_front()),
                Some(first) => return Ok(is_same(first, wanted)),
                None => {
                    self.turn_page().await?;
                    if self.page.is_empty() {
                        return Ok(false);
                    }
                }
            }
        }
    }

    async fn turn_page(&mut self) -> ArchiveResult<()> {
        let (store, of) = (&self.exports.store, self.of);
        let after = self.after.as_ref();
        let lines = store.archived_lines(&of.item_type, of.day, after, LINES_AT_ONCE);
        for line in lines.await? {
            self.page.push_back(item(of, &line)?);
        }
        if let Some(last) = self.page.back() {
            self.after = Some(last.id.clone());
        }
        Ok(())
    }
}

/// By what an erasure leaves: an item whose line was erased since is the same.
fn is_same(one: &ArchivedItem, other: &ArchivedItem) -> bool {
    let known = |item: &ArchivedItem| {
        let times = (item.created_at, item.finished_at);
        (item.id.clone(), times, item.currency, item.amount_minor)
    };
    known(one) == known(other)
}

fn item(of: &TypeDay, line: &str) -> ArchiveResult<ArchivedItem> {
    let read = serde_json::from_str(line);
    read.map_err(|why| ArchiveError::Mismatch(format!("{of}: a line is not an item: {why}")))
}

fn of_another(of: &TypeDay) -> ArchiveError {
    ArchiveError::Mismatch(format!(
        "export_dir has an export of {of} by another database; give each database a folder of its own, nothing was overwritten"
    ))
}
