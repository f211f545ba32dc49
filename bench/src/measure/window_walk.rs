//! The peer of W4: the plain way. From the requested window on, look at each counter until one
//! has room; one transaction per item, as there.

use std::path::Path;

use anyhow::Result;
use rusqlite::{Connection, OptionalExtension, params};

use super::target;
use crate::sample::Sample;
use crate::stopwatch::{Lap, Progress};

pub(super) fn measure(dir: &Path, count: u32, per_window: u32) -> Result<Sample> {
    let connection = target::connect(dir)?;
    connection.execute_batch(
        "CREATE TABLE window_counter (window INTEGER NOT NULL PRIMARY KEY, used INTEGER NOT NULL);
         CREATE TABLE window_slot (item_id TEXT NOT NULL PRIMARY KEY, window INTEGER NOT NULL)
             WITHOUT ROWID;",
    )?;
    let commits_before = target::commits(dir)?;

    let (lap, progress) = (Lap::begin()?, Progress::begin(count));
    for number in 0..count {
        connection.execute_batch("BEGIN IMMEDIATE")?;
        place(&connection, number, per_window)?;
        connection.execute_batch("COMMIT")?;
        progress.add(1);
    }
    let (last_over_first, sample) = (progress.last_over_first(), lap.sample(count)?);

    let commits = target::commits(dir)? - commits_before;
    drop(connection);
    target::check_rows(dir, "SELECT sum(used) FROM window_counter", count)?;
    Ok(Sample {
        commits: Some(commits),
        last_over_first,
        ..sample
    })
}

fn place(c: &Connection, number: u32, per_window: u32) -> Result<()> {
    let mut look = c.prepare_cached("SELECT used FROM window_counter WHERE window = ?1")?;
    let mut window = 0_u32;
    loop {
        let used: Option<u32> = look.query_row([window], |row| row.get(0)).optional()?;
        if used.unwrap_or(0) < per_window {
            break;
        }
        window += 1;
    }
    c.prepare_cached(
        "INSERT INTO window_counter (window, used) VALUES (?1, 1)
         ON CONFLICT (window) DO UPDATE SET used = used + 1",
    )?
    .execute([window])?;
    c.prepare_cached("INSERT INTO window_slot (item_id, window) VALUES (?1, ?2)")?
        .execute(params![format!("slot-{number:010}"), window])?;
    Ok(())
}
