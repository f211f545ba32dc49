//! The folder of exports: which files are in it, and how one takes the place of another. A file counts only while a
//! manifest names it, and a manifest is replaced in one step, so that a crash leaves the old export or the new one.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::draft::Draft;
use super::edges::edge;
use super::manifest::{Manifest, TypeDay};
use super::reading::Reading;
use super::trouble::{ArchiveError, ArchiveResult};

/// One who works in the folder keeps others out, of this process and of others.
const LOCK: &str = ".lock";
const OWNER_ONLY: u32 = 0o600;

#[derive(Debug, Clone)]
pub(crate) struct Folder {
    path: PathBuf,
}

/// Held while somebody works in the folder; the end of a process gives it back.
#[derive(Debug)]
pub(crate) struct Held {
    _lock: File,
}

impl Folder {
    pub(crate) fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    pub(crate) fn hold(&self) -> ArchiveResult<Held> {
        let path = self.path.join(LOCK);
        let lock = File::options().create(true).append(true).open(&path);
        let lock = lock.map_err(|error| ArchiveError::writing(&path, &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Held { _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(ArchiveError::Busy(
                "another export, verification or restore is running; try again when it has ended"
                    .to_owned(),
            )),
            Err(TryLockError::Error(error)) => Err(ArchiveError::writing(&path, &error)),
        }
    }

    /// None if this day was never exported here.
    pub(crate) fn manifest(&self, of: &TypeDay) -> ArchiveResult<Option<Manifest>> {
        let path = self.path.join(of.manifest_name());
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ArchiveError::reading(&path, &error)),
        };
        let read = Manifest::read(of, &text);
        let told = |why| ArchiveError::Mismatch(format!("{} {why}", path.display()));
        read.map(Some).map_err(told)
    }

    pub(crate) fn begin(&self, of: &TypeDay) -> ArchiveResult<Draft> {
        Draft::begin(self.path.clone(), of.clone())
    }

    pub(crate) fn open(&self, file: &str) -> ArchiveResult<Reading> {
        Reading::open(self.path.join(file))
    }

    pub(crate) fn size(&self, file: &str) -> ArchiveResult<u64> {
        let path = self.path.join(file);
        let found = fs::metadata(&path).map_err(|error| ArchiveError::reading(&path, &error));
        Ok(found?.len())
    }

    pub(crate) fn shown(&self, file: &str) -> String {
        self.path.join(file).display().to_string()
    }

    /// From this moment on the manifest's file is the export of its day. When this returns, it stays so.
    pub(crate) fn publish(&self, of: &TypeDay, manifest: &Manifest) -> ArchiveResult<()> {
        let part = self.path.join(of.part_name("manifest.json"));
        let path = self.path.join(of.manifest_name());
        let wrong = |error: io::Error| ArchiveError::writing(&path, &error);
        let mut file = create(&part).map_err(wrong)?;
        file.write_all(manifest.text().as_bytes()).map_err(wrong)?;
        file.sync_all().map_err(wrong)?;
        edge("export-manifest-written");
        fs::rename(&part, &path).map_err(wrong)?;
        sync_folder(&self.path)?;
        edge("export-manifest-named");
        Ok(())
    }

    /// The files of a day, whichever of them counts.
    pub(crate) fn files(&self, of: &TypeDay) -> ArchiveResult<Vec<String>> {
        let wrong = |error: io::Error| ArchiveError::reading(&self.path, &error);
        let mut files = vec![];
        for entry in fs::read_dir(&self.path).map_err(wrong)? {
            let name = entry.map_err(wrong)?.file_name();
            let name = name.to_str().filter(|name| of.has_file(name));
            files.extend(name.map(str::to_owned));
        }
        Ok(files)
    }

    /// Removes the files of a day but for these, and its drafts.
    pub(crate) fn remove_others(&self, of: &TypeDay, keep: &[String]) -> ArchiveResult<()> {
        let wrong = |error: io::Error| ArchiveError::reading(&self.path, &error);
        for entry in fs::read_dir(&self.path).map_err(wrong)? {
            let name = entry.map_err(wrong)?.file_name();
            let Some(name) = name.to_str() else { continue };
            let is_part = ["ndjson.gz", "manifest.json"].map(|what| of.part_name(what));
            if (of.has_file(name) && !keep.iter().any(|kept| kept == name))
                || is_part.iter().any(|part| part == name)
            {
                let path = self.path.join(name);
                fs::remove_file(&path).map_err(|error| ArchiveError::writing(&path, &error))?;
            }
        }
        sync_folder(&self.path)
    }
}

/// Lines have names and accounts: a file is its owner's alone, as the database is, also where an older one was readable.
pub(super) fn create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(true).write(true);
    let file = options.mode(OWNER_ONLY).open(path)?;
    // What a crash of an earlier release has left under this name keeps its mode otherwise.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
    }
    Ok(file)
}

/// A name is on the disk only when its folder is.
pub(super) fn sync_folder(path: &Path) -> ArchiveResult<()> {
    let synced = File::open(path).and_then(|folder| folder.sync_all());
    synced.map_err(|error| ArchiveError::writing(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_its_owners_alone_even_if_a_readable_one_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "before").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        for _ in 0..2 {
            create(&path).unwrap();
            let found = fs::metadata(&path).unwrap();
            assert_eq!(
                (found.len(), found.permissions().mode() & 0o777),
                (0, 0o600)
            );
        }
    }
}
