//! After an erasure: each file is rewritten without what its free space still holds, and its log is emptied. On a
//! connection of its own; the writer waits meanwhile, which is why a large file is left to a person.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use tollgate_core::ports::{Purged, StoreError, StoreResult};

use super::Sqlite;

/// The largest file that is rewritten while it is in use: about a second on a slow disk.
const LARGEST_BYTES: i64 = 64 * 1024 * 1024;
/// How long it waits for the writer and for readers.
const PATIENCE: Duration = Duration::from_secs(5);

impl Sqlite {
    pub(super) async fn purge_file(&self) -> StoreResult<Purged> {
        let path = self.options.path.clone();
        let purge = move || purge(&path);
        let purged = tokio::task::spawn_blocking(purge).await;
        let purged = purged.map_err(|e| StoreError::Bug(format!("a purge panicked: {e}")))?;
        let purged = purged.map_err(|error| self.fault.judge(error))?;
        let purged = purged.ok_or_else(|| {
            let why = "the database's write-ahead log is in use; it is emptied at the next attempt";
            StoreError::Unavailable(why.to_owned())
        })?;
        let largest = u64::try_from(LARGEST_BYTES).unwrap_or(u64::MAX);
        if self.archive.purge(largest).await? {
            return Ok(purged);
        }
        Ok(Purged::TooLarge)
    }
}

/// None if somebody reads from the log.
fn purge(path: &Path) -> rusqlite::Result<Option<Purged>> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(PATIENCE)?;
    connection.execute_batch("PRAGMA temp_store = MEMORY; PRAGMA synchronous = FULL;")?;
    let number = |pragma| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let bytes = number("PRAGMA page_count")?.saturating_mul(number("PRAGMA page_size")?);
    let is_small = bytes <= LARGEST_BYTES;
    if is_small {
        connection.execute_batch("VACUUM")?;
    }
    let is_busy: bool =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    if is_busy {
        return Ok(None);
    }
    Ok(Some(if is_small {
        Purged::Done
    } else {
        Purged::TooLarge
    }))
}
