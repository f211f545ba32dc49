//! The limits of W5: what the disk does when asked for nothing else, and what SQLite does with
//! nothing but journal rows.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use rusqlite::params;

use super::{STEPS, target};
use crate::sample::Sample;
use crate::stopwatch::Lap;

const PAGE: [u8; 4096] = [0x5a; 4096];

/// Appends of 4 KiB, each followed by its fdatasync.
pub(super) fn appends(dir: &Path, count: u32) -> Result<Sample> {
    let mut file = File::create(dir.join("appended"))?;
    let lap = Lap::begin()?;
    for _ in 0..count {
        file.write_all(&PAGE)?;
        file.sync_data()?;
    }
    lap.sample(count)
}

/// Rows of finished steps, so many per commit.
pub(super) fn journal_rows(dir: &Path, count: u32, per_commit: u32) -> Result<Sample> {
    let connection = target::connect(dir)?;
    connection.execute_batch(
        "CREATE TABLE journal (flow_id TEXT NOT NULL, key TEXT NOT NULL, result TEXT NOT NULL,
                               PRIMARY KEY (flow_id, key)) STRICT, WITHOUT ROWID;",
    )?;
    let commits_before = target::commits(dir)?;

    let lap = Lap::begin()?;
    let mut written = 0;
    while written < count {
        let end = (written + per_commit).min(count);
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut insert = connection
            .prepare_cached("INSERT INTO journal (flow_id, key, result) VALUES (?1, ?2, ?3)")?;
        for row in written..end {
            let flow = format!("flow-{:010}", row / STEPS);
            let key = format!("at-once/{}", row % STEPS);
            insert.execute(params![flow, key, r#"{"Ok":1}"#])?;
        }
        connection.execute_batch("COMMIT")?;
        written = end;
    }
    let sample = lap.sample(count)?;

    let commits = target::commits(dir)? - commits_before;
    Ok(Sample {
        commits: Some(commits),
        ..sample
    })
}
