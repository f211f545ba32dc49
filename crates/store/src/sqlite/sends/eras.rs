//! Eras of the shared clock: whether it has run evenly since a node of the same boot last said so.

use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::ports::{Boot, Era};

use crate::sqlite::connection::value::Us;
use crate::sqlite::queue::set_back;

pub(crate) fn current(c: &Connection) -> rusqlite::Result<Era> {
    c.prepare_cached("SELECT number, since FROM clock_era WHERE one = 1")?
        .query_row([], |row| {
            Ok(Era {
                number: row.get(0)?,
                since: row.get::<_, Us>(1)?.0,
            })
        })
}

pub(crate) fn vouch(c: &Connection, boot: Option<&Boot>, now: Us) -> rusqlite::Result<()> {
    if let Some(boot) = boot {
        let known: Option<Us> = c
            .prepare_cached("SELECT began FROM clock_boot WHERE boot_id = ?1")?
            .query_row([&boot.id], |row| row.get(0))
            .optional()?;
        if known.is_some_and(|known| boot.began_at(known.0)) {
            return Ok(());
        }
    }
    open(c, boot, now)
}

/// Whoever vouched for the era before knows nothing about this one, and until when a lane was closed
/// was said by another clock: it opens, and is closed again if its downstream says so again.
pub(crate) fn open(c: &Connection, boot: Option<&Boot>, now: Us) -> rusqlite::Result<()> {
    c.prepare_cached("UPDATE clock_era SET number = number + 1, since = ?1 WHERE one = 1")?
        .execute([now])?;
    c.prepare_cached("DELETE FROM clock_boot")?.execute([])?;
    c.prepare_cached("UPDATE lane_cursor SET closed_until = NULL WHERE closed_until IS NOT NULL")?
        .execute([])?;
    if let Some(boot) = boot {
        c.prepare_cached("INSERT INTO clock_boot (boot_id, began) VALUES (?1, ?2)")?
            .execute(params![boot.id, Us(boot.began)])?;
    }
    set_back::make_due(c, now)
}
