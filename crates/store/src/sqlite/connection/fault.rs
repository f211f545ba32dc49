//! The word that a file must not be used any more: said once, kept for good, heard by everybody.
//!
//! A disk that is full is no such word. A failed fsync is: the kernel may have dropped what it could
//! not write, and a second fsync would say that all is well. So is a damaged file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{ErrorCode, ffi};
use tokio::sync::watch;
use tollgate_core::ports::{StoreError, StoreResult};

use super::error::{Failed, store_error};

#[derive(Debug, Clone)]
pub(crate) struct Fault {
    file: Arc<PathBuf>,
    said: Arc<watch::Sender<Option<String>>>,
}

impl Fault {
    pub(super) fn none_yet(file: &Path) -> Self {
        Self {
            file: Arc::new(file.to_owned()),
            said: Arc::new(watch::Sender::new(None)),
        }
    }

    /// What to answer instead of using the file, once it must not be used.
    pub(crate) fn check(&self) -> StoreResult<()> {
        match &*self.said.borrow() {
            None => Ok(()),
            Some(why) => Err(StoreError::Unavailable(why.clone())),
        }
    }

    /// The error for the caller; noted if it ends the use of the file.
    pub(crate) fn judge(&self, failed: impl Into<Failed>) -> StoreError {
        let error = match failed.into() {
            Failed::Ours(error) => return error,
            Failed::Sqlite(error) => error,
        };
        let Some(remedy) = remedy(&error) else {
            return store_error(error);
        };
        let why = format!("{}: {error}; {remedy}", self.file.display());
        self.said.send_if_modified(|said| {
            let first = said.is_none();
            said.get_or_insert_with(|| why.clone());
            first
        });
        StoreError::Unavailable(why)
    }

    pub(crate) async fn said(&self) -> String {
        let mut heard = self.said.subscribe();
        let why = heard.wait_for(Option::is_some).await;
        // The sender is ours and lives as long as this.
        why.ok().and_then(|why| why.clone()).unwrap_or_default()
    }
}

/// What to do about an error after which the file must not be used; none for all others.
fn remedy(error: &rusqlite::Error) -> Option<&'static str> {
    const CHECK_THE_DISK: &str = "the last writes may be lost. Check the disk, then start again";
    const RESTORE: &str = "the file is damaged. Restore a backup, or repair a copy with `sqlite3 FILE .recover`, then start again";
    let error = error.sqlite_error()?;
    match (error.code, error.extended_code) {
        (_, ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) => Some(CHECK_THE_DISK),
        (_, ffi::SQLITE_IOERR_CORRUPTFS | ffi::SQLITE_IOERR_DATA)
        | (ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase, _) => Some(RESTORE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sqlite(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn a_failed_fsync_or_a_damaged_file_ends_its_use_and_a_full_disk_does_not() {
        for (code, ends) in [
            (ffi::SQLITE_IOERR_FSYNC, true),
            (ffi::SQLITE_IOERR_DIR_FSYNC, true),
            (ffi::SQLITE_CORRUPT, true),
            (ffi::SQLITE_CORRUPT_INDEX, true),
            (ffi::SQLITE_NOTADB, true),
            (ffi::SQLITE_FULL, false),
            // A quota, or a limit on the size of files.
            (ffi::SQLITE_IOERR_WRITE, false),
            (ffi::SQLITE_IOERR_SHMSIZE, false),
            (ffi::SQLITE_BUSY, false),
            (ffi::SQLITE_READONLY, false),
        ] {
            let fault = Fault::none_yet(Path::new("tollgate.db"));
            let told = fault.judge(sqlite(code));
            assert!(matches!(told, StoreError::Unavailable(_)), "{code}: {told}");
            assert_eq!(fault.check().is_err(), ends, "{code}");
        }
    }

    #[tokio::test]
    async fn the_first_word_is_kept_and_heard_in_one_sentence() {
        let fault = Fault::none_yet(Path::new("tollgate.db"));
        fault.judge(sqlite(ffi::SQLITE_IOERR_FSYNC));
        fault.judge(sqlite(ffi::SQLITE_CORRUPT));
        let said = fault.said().await;
        assert!(said.starts_with("tollgate.db: "), "{said}");
        assert!(said.ends_with("Check the disk, then start again"), "{said}");
        assert!(!said.contains('\n'), "{said}");
    }
}
