//! Reads a file back and compares it with the database, line by line.

use tollgate_core::id::ItemId;

use super::export::id_of;
use super::folder::Folder;
use super::manifest::{Manifest, TypeDay};
use super::reading::Reading;
use super::trouble::{ArchiveError, ArchiveResult};
use super::{Exports, LINES_AT_ONCE, blocking};

/// Behind the name of a file.
pub(super) const DIFFERS: &str = "differs from the database";

impl Exports {
    /// The file is what its manifest says, and has the lines that the database has, no more and no less.
    pub(super) async fn compare(
        &self,
        folder: &Folder,
        of: &TypeDay,
        manifest: &Manifest,
    ) -> ArchiveResult<()> {
        let mut reading = open(folder, &manifest.file).await?;
        let mut after: Option<ItemId> = None;
        loop {
            let page = self
                .store
                .archived_lines(&of.item_type, of.day, after.as_ref(), LINES_AT_ONCE)
                .await?;
            let wanted = page.len().max(1);
            let (lines, rest) = next(reading, wanted).await?;
            if lines != page {
                return Err(differs(folder, manifest, &lines, &page));
            }
            match page.last() {
                Some(last) => after = Some(id_of(of, last)?),
                None => return check(folder, manifest, rest).await,
            }
            reading = rest;
        }
    }

    /// The file is what its manifest says, whatever the database has. `look` sees every page of it.
    pub(super) async fn read_all(
        &self,
        folder: &Folder,
        manifest: &Manifest,
        mut look: impl FnMut(Vec<String>) -> Result<(), String>,
    ) -> ArchiveResult<()> {
        let mut reading = open(folder, &manifest.file).await?;
        loop {
            let (lines, rest) = next(reading, LINES_AT_ONCE as usize).await?;
            if lines.is_empty() {
                return check(folder, manifest, rest).await;
            }
            let file = || folder.shown(&manifest.file);
            look(lines).map_err(|why| ArchiveError::Mismatch(format!("{} {why}", file())))?;
            reading = rest;
        }
    }
}

pub(super) async fn open(folder: &Folder, file: &str) -> ArchiveResult<Reading> {
    let (folder, file) = (folder.clone(), file.to_owned());
    blocking(move || folder.open(&file)).await
}

pub(super) async fn next(
    mut reading: Reading,
    most: usize,
) -> ArchiveResult<(Vec<String>, Reading)> {
    blocking(move || reading.page(most).map(|lines| (lines, reading))).await
}

pub(super) async fn check(
    folder: &Folder,
    manifest: &Manifest,
    reading: Reading,
) -> ArchiveResult<()> {
    let contents = blocking(move || reading.end()).await?;
    let file = || folder.shown(&manifest.file);
    let checked = manifest.check(&contents);
    checked.map_err(|why| ArchiveError::Mismatch(format!("{} {why}", file())))
}

fn differs(folder: &Folder, manifest: &Manifest, file: &[String], page: &[String]) -> ArchiveError {
    let unequal = file.iter().zip(page).find(|(one, other)| one != other);
    let first = unequal.map(|(line, _)| line).or_else(|| {
        let same = file.len().min(page.len());
        file.get(same).or_else(|| page.get(same))
    });
    let head = first.and_then(|line| super::line::LineHead::read(line).ok());
    let id = head.map_or_else(String::new, |head| format!(" at item {}", head.id));
    ArchiveError::Mismatch(format!("{} {DIFFERS}{id}", folder.shown(&manifest.file)))
}
