//! The archive of SQLite: a file for each month beside the database, `NAME-archive-2026-11.db`. Each is opened for one use
//! and closed after it, so that what lies there between two uses is one file without a log.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tollgate_core::ports::{StoreError, StoreResult};

use super::connection::error::{Failed, store_error};
use super::connection::open::create;

const SCHEMA: &str = include_str!("../../migrations/sqlite_archive/archive.sql");
const BUSY: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub(super) struct ArchiveFiles {
    /// The database's path up to `-archive-`.
    stem: Arc<PathBuf>,
    /// One at a time writes: the move, a restore, a drop. Whoever removes a file has it, too.
    writing: Arc<Mutex<()>>,
    /// One at a time copies items and takes them out, or looks for copies that were left behind.
    moving: Arc<AsyncMutex<()>>,
}

impl ArchiveFiles {
    pub(super) fn beside(database: &Path) -> Self {
        Self {
            stem: Arc::new(database.with_extension("")),
            writing: Arc::default(),
            moving: Arc::default(),
        }
    }

    pub(super) async fn alone(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.moving).lock_owned().await
    }

    fn file(&self, month: &str) -> PathBuf {
        let mut name = self.stem.as_os_str().to_owned();
        name.push(format!("-archive-{month}.db"));
        PathBuf::from(name)
    }

    /// The months that have a file, oldest first.
    pub(super) fn months(&self) -> StoreResult<Vec<String>> {
        let (Some(folder), Some(stem)) = (self.stem.parent(), self.stem.file_name()) else {
            return Ok(vec![]);
        };
        let prefix = format!("{}-archive-", stem.to_string_lossy());
        let mut months = vec![];
        for entry in fs::read_dir(folder).map_err(|e| unreadable(folder, &e))? {
            let name = entry.map_err(|e| unreadable(folder, &e))?.file_name();
            let name = name.to_string_lossy();
            let month = name
                .strip_prefix(&prefix)
                .and_then(|it| it.strip_suffix(".db"));
            months.extend(month.map(str::to_owned));
        }
        months.sort();
        Ok(months)
    }

    pub(super) fn bytes(&self) -> StoreResult<u64> {
        let size = |month: &String| fs::metadata(self.file(month)).map_or(0, |file| file.len());
        Ok(self.months()?.iter().map(size).sum())
    }

    /// None if there is no file.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        month: String,
        work: impl FnOnce(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> StoreResult<Option<T>> {
        let file = self.file(&month);
        on_a_thread(move || {
            if !file.exists() {
                return Ok(None);
            }
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let connection = Connection::open_with_flags(&file, flags);
            let connection = connection.map_err(|e| about(&file, e))?;
            connection.busy_timeout(BUSY).map_err(|e| about(&file, e))?;
            work(&connection).map(Some).map_err(|e| about(&file, e))
        })
        .await
    }

    /// In one transaction, which is on the disk when this returns.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        month: String,
        work: impl FnOnce(&Connection) -> Result<T, Failed> + Send + 'static,
    ) -> StoreResult<T> {
        let (file, writing) = (self.file(&month), Arc::clone(&self.writing));
        on_a_thread(move || {
            let _alone = writing.lock().unwrap_or_else(PoisonError::into_inner);
            in_transaction(&file, work).map_err(|e| about(&file, e))
        })
        .await
    }

    /// Rewrites the files that are not larger than this, without what their free space holds. Whether none was larger.
    pub(super) async fn purge(&self, largest_bytes: u64) -> StoreResult<bool> {
        let months = self.months()?;
        let files: Vec<PathBuf> = months.iter().map(|month| self.file(month)).collect();
        let writing = Arc::clone(&self.writing);
        on_a_thread(move || {
            let mut are_small = true;
            for file in files {
                let _alone = writing.lock().unwrap_or_else(PoisonError::into_inner);
                if fs::metadata(&file).map_or(0, |it| it.len()) > largest_bytes {
                    are_small = false;
                    continue;
                }
                let vacuum = |connection: Connection| Ok(connection.execute_batch("VACUUM")?);
                let purged = open_to_write(&file).and_then(vacuum);
                purged.map_err(|e| about(&file, e))?;
            }
            Ok(are_small)
        })
        .await
    }

    pub(super) async fn give_back(&self, month: String) -> StoreResult<()> {
        let (file, writing) = (self.file(&month), Arc::clone(&self.writing));
        on_a_thread(move || {
            let _alone = writing.lock().unwrap_or_else(PoisonError::into_inner);
            if !file.exists() {
                return Ok(());
            }
            if give_back(&file).map_err(|e| about(&file, e))? {
                fs::remove_file(&file).map_err(|e| unreadable(&file, &e))?;
            }
            Ok(())
        })
        .await
    }
}

fn in_transaction<T>(
    file: &Path,
    work: impl FnOnce(&Connection) -> Result<T, Failed>,
) -> Result<T, Failed> {
    let connection = open_to_write(file)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    match work(&connection) {
        Ok(done) => {
            connection.execute_batch("COMMIT")?;
            Ok(done)
        }
        Err(why) => {
            // Fails only if the transaction is gone, and then there is nothing to undo.
            let _ = connection.execute_batch("ROLLBACK");
            Err(why)
        }
    }
}

fn open_to_write(file: &Path) -> Result<Connection, Failed> {
    let is_new = !file.exists();
    if is_new {
        // Its owner alone reads and writes it, as the database.
        create(file).map_err(|e| Failed::Ours(unreadable(file, &e)))?;
    }
    let connection = Connection::open(file)?;
    connection.busy_timeout(BUSY)?;
    if is_new {
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
    // A line that was erased leaves nothing behind.
    connection.execute_batch("PRAGMA secure_delete = ON;")?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

/// Whether no line is left.
fn give_back(file: &Path) -> Result<bool, Failed> {
    let connection = open_to_write(file)?;
    let any = "SELECT EXISTS (SELECT 1 FROM archived_item)";
    let any: bool = connection.query_row(any, [], |row| row.get(0))?;
    if any {
        connection.execute_batch("PRAGMA incremental_vacuum")?;
    }
    Ok(!any)
}

async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> StoreResult<T> + Send + 'static,
) -> StoreResult<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| StoreError::Bug(format!("a use of the archive panicked: {e}")))?
}

fn unreadable(path: &Path, error: &io::Error) -> StoreError {
    let why = format!(
        "the archive at {}: {error}; check the path and its permissions",
        path.display()
    );
    StoreError::Unavailable(why)
}

/// The archive's file is named: the database itself may be well.
fn about(file: &Path, failed: impl Into<Failed>) -> StoreError {
    let error = match failed.into() {
        Failed::Ours(error) => return error,
        Failed::Sqlite(error) => store_error(error),
    };
    let file = file.display();
    match error {
        StoreError::Unavailable(why) => {
            StoreError::Unavailable(format!("the archive file {file}: {why}"))
        }
        StoreError::Bug(why) => StoreError::Bug(format!("the archive file {file}: {why}")),
        other @ (StoreError::Fenced(_) | StoreError::Invalid(_)) => other,
    }
}
