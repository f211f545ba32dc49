//! The database under measurement: a store with one lane, or a plain connection to the tables
//! that a store has made.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rusqlite::Connection;
use tollgate_core::id::LaneName;
use tollgate_core::lane::{Lane, LaneChange};
use tollgate_core::ports::{Author, Lanes};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

/// Items per window of the lane: the usual plan.
const PER_WINDOW: u32 = 100;
const WINDOW_SECS: u32 = 4;

pub(crate) fn lane_name() -> LaneName {
    LaneName::new("bench")
}

/// The lane, as the limits place their rows by it.
pub(crate) fn lane() -> Result<Lane> {
    Lane::changed(None, lane_change()).map_err(anyhow::Error::msg)
}

pub(crate) fn lane_change() -> LaneChange {
    LaneChange {
        max_per_window: Some(PER_WINDOW),
        window_size_secs: Some(WINDOW_SECS),
        ..LaneChange::default()
    }
}

pub(super) async fn open_store(dir: &Path) -> Result<Arc<SqliteStore>> {
    let store = SqliteStore::open(SqliteOptions::at(file(dir)))?;
    let author = Author::new("bench", "a lane to measure");
    store
        .change_lane(&lane_name(), lane_change(), author)
        .await?;
    Ok(Arc::new(store))
}

/// A connection with the store's own settings.
pub(super) fn connect(dir: &Path) -> Result<Connection> {
    let connection = Connection::open(file(dir))?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = FULL;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -65536;
         PRAGMA wal_autocheckpoint = 4000;",
    )?;
    connection.set_prepared_statement_cache_capacity(128);
    Ok(connection)
}

/// Whether what was acknowledged is there.
pub(super) fn check_rows(dir: &Path, query: &str, expected: u32) -> Result<()> {
    let found: u32 = connect(dir)?.query_row(query, [], |row| row.get(0))?;
    ensure!(found == expected, "{query}: {found} rows, not {expected}");
    Ok(())
}

/// The transactions that have written something since the database was opened: `iChange`, the
/// third word of the index of the write-ahead log. Read between the transactions only, as
/// closing the file drops this process's own locks on it.
pub(super) fn commits(dir: &Path) -> Result<u32> {
    let mut name = file(dir).into_os_string();
    name.push("-shm");
    let index = fs::read(name)?;
    let word = index.get(8..12).context("the index of the log is short")?;
    Ok(u32::from_ne_bytes(word.try_into()?))
}

pub(super) fn file(dir: &Path) -> PathBuf {
    dir.join("bench.db")
}
