//! The cost on SQLite: rows by triggers in a run of their own, since those write too; WAL by the size of the log, which
//! a reader keeps from being written over.

use std::fs;
use std::path::Path;
use std::thread::sleep;

use anyhow::Result;
use rusqlite::Connection;

use super::{COUNT, Cost, ENDED, LOOK_EVERY, RUNNING, Stage};

/// One round: two runs, one for the rows and one for the bytes.
pub(crate) fn measure(rows_in: &Path, bytes_in: &Path, more: &str) -> Result<Cost> {
    let row_versions = count_rows(rows_in, more)?;
    let [wal_bytes, kept_bytes] = count_bytes(bytes_in, more)?;
    Ok(Cost {
        row_versions,
        wal_bytes,
        kept_bytes,
    })
}

fn count_rows(folder: &Path, more: &str) -> Result<f64> {
    let db = prepared(folder, more)?;
    db.execute_batch("CREATE TABLE w9 (rows INTEGER); INSERT INTO w9 VALUES (0)")?;
    let tables: Vec<String> = db
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'w9'")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for table in tables.iter().filter(|name| !name.starts_with("sqlite_")) {
        for what in ["INSERT", "UPDATE", "DELETE"] {
            db.execute_batch(&format!(
                "CREATE TRIGGER w9_{table}_{what} AFTER {what} ON {table}
                 BEGIN UPDATE w9 SET rows = rows + 1; END"
            ))?;
        }
    }
    drop(db);
    pay_all(folder, more)?;
    let db = Connection::open(file(folder))?;
    let rows: u32 = db.query_row("SELECT rows FROM w9", [], |row| row.get(0))?;
    Ok(f64::from(rows))
}

fn count_bytes(folder: &Path, more: &str) -> Result<[f64; 2]> {
    let before = size(&prepared(folder, more)?)?;
    // What it has not read yet stays in the log, and the log is not begun again.
    let reader = Connection::open(file(folder))?;
    reader.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
    let log = folder.join("cost.db-wal");
    let begun = fs::metadata(&log).map_or(0, |log| log.len());
    pay_all(folder, more)?;
    let written = fs::metadata(&log)?.len() - begun;
    reader.execute_batch("COMMIT")?;
    drop(reader);
    let after = size(&Connection::open(file(folder))?)?;
    Ok([f64::from(u32::try_from(written)?), after - before])
}

/// A database that a first start has made, with its settings and lanes.
fn prepared(folder: &Path, more: &str) -> Result<Connection> {
    let first = Stage::serve(&url(folder), more)?;
    first.set_limit()?;
    drop(first);
    Ok(Connection::open(file(folder))?)
}

fn pay_all(folder: &Path, more: &str) -> Result<()> {
    let stage = Stage::serve(&url(folder), more)?;
    stage.hand_in(folder)?;
    let looker = Connection::open(file(folder))?;
    let count = |question| looker.query_row(question, [], |row| row.get::<_, u32>(0));
    while count(ENDED)? < COUNT || count(RUNNING)? > 0 {
        sleep(LOOK_EVERY);
    }
    stage.check()
}

/// Once it holds nothing but what lives in it.
fn size(db: &Connection) -> Result<f64> {
    db.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")?;
    let pages: u32 = db.query_row("PRAGMA page_count", [], |row| row.get(0))?;
    let bytes: u32 = db.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    Ok(f64::from(pages) * f64::from(bytes))
}

fn url(folder: &Path) -> String {
    format!("sqlite:{}", file(folder).display())
}

fn file(folder: &Path) -> std::path::PathBuf {
    folder.join("cost.db")
}
