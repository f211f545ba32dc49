//! Eras of the shared clock: whether it has run evenly since a node of the same boot last said so.

use deadpool_postgres::{GenericClient, Transaction};
use tollgate_core::Timestamp;
use tollgate_core::ports::{Boot, Era, StoreResult};

use crate::postgres::connection::run::{execute, one, optional};
use crate::postgres::connection::value::Us;
use crate::postgres::queue::set_back;

/// The time and its era, which may be an older one, never a newer: the row is as it was when the
/// statement began, and the clock is read after that.
pub(crate) async fn now(c: &impl GenericClient) -> StoreResult<(Timestamp, Era)> {
    const NOW: &str = "SELECT tg_now(), number, since FROM clock_era WHERE one = 1";
    let row = one(c, NOW, &[]).await?;
    let era = Era {
        number: row.get(1),
        since: row.get::<_, Us>(2).0,
    };
    Ok((row.get::<_, Us>(0).0, era))
}

pub(crate) async fn vouch(tx: &Transaction<'_>, boot: Option<&Boot>) -> StoreResult<()> {
    const LOCK: &str = "SELECT number FROM clock_era WHERE one = 1 FOR UPDATE";
    const KNOWN: &str = "SELECT began FROM clock_boot WHERE boot_id = $1";
    one(tx, LOCK, &[]).await?;
    if let Some(boot) = boot {
        let known = optional(tx, KNOWN, &[&boot.id]).await?;
        if known.is_some_and(|row| boot.began_at(row.get::<_, Us>(0).0)) {
            return Ok(());
        }
    }
    open(tx, boot).await
}

/// Whoever vouched for the era before knows nothing about this one, and until when a lane was closed
/// was said by another clock: it opens, and is closed again if its downstream says so again.
pub(crate) async fn open(tx: &Transaction<'_>, boot: Option<&Boot>) -> StoreResult<()> {
    const NEXT: &str = "UPDATE clock_era SET number = number + 1, since = tg_now() WHERE one = 1";
    const FORGET: &str = "DELETE FROM clock_boot";
    const REOPEN: &str =
        "UPDATE lane_cursor SET closed_until = NULL WHERE closed_until IS NOT NULL";
    const VOUCH: &str = "INSERT INTO clock_boot (boot_id, began) VALUES ($1, $2)";
    execute(tx, NEXT, &[]).await?;
    execute(tx, FORGET, &[]).await?;
    execute(tx, REOPEN, &[]).await?;
    if let Some(boot) = boot {
        execute(tx, VOUCH, &[&boot.id, &Us(boot.began)]).await?;
    }
    set_back::make_due(tx).await
}
