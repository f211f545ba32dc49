//! Evidence from elsewhere that an item in doubt was done.

use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::id::Item;
use tollgate_core::ports::{Author, Intervened, cannot_resolve};

use super::accounts::{Entry, audit};
use super::eras;
use super::value::Us;

pub(super) fn note(
    c: &Connection,
    item: &Item,
    evidence: &Author,
    now: Us,
) -> rusqlite::Result<Intervened> {
    let key = params![item.item_type.as_str(), item.id.as_str()];
    let found: Option<(String, bool, bool)> = c
        .prepare_cached(
            "SELECT r.status, EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = r.item_type AND a.item_id = r.item_id AND a.state = 'OPEN'),
                    EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = r.item_type AND a.item_id = r.item_id AND a.state = 'DONE')
             FROM record r WHERE r.item_type = ?1 AND r.item_id = ?2",
        )?
        .query_row(key, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((status, has_open_attempt, was_done)) = found else {
        return Ok(Intervened::NoSuchItem);
    };
    if let Some(why) = cannot_resolve(&status, has_open_attempt, was_done) {
        return Ok(Intervened::Refused(why));
    }
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let era = eras::current(c)?.number;
    c.prepare_cached(
        "INSERT INTO attempt (item_type, item_id, run, kind, state, lane, idempotency_key,
                              turn_at, era, settled_at, detail)
         SELECT item_type, item_id, run, 'PROBE', 'DONE', lane, '', ?3, ?4, ?3, ?5
         FROM item_queue WHERE item_type = ?1 AND item_id = ?2",
    )?
    .execute(params![kind, id, now, era, evidence.reason])?;
    c.prepare_cached(
        "UPDATE item_queue SET scheduled_exec_time = ?3
         WHERE item_type = ?1 AND item_id = ?2 AND queue_status = 'READY'",
    )?
    .execute(params![kind, id, now])?;
    let entry = Entry {
        item: Some(item),
        action: "EVIDENCE",
        before: Some(&status),
        after: Some(&status),
        actor: &evidence.actor,
        detail: &evidence.reason,
        ..Entry::default()
    };
    audit(c, now, &entry)?;
    Ok(Intervened::Yes)
}
