//! Evidence from elsewhere that an item in doubt was done.

use rusqlite::{Connection, params};
use tollgate_core::id::Item;
use tollgate_core::ports::{Author, IN_DOUBT, Intervened};

use super::accounts::audit;
use super::attempts::abandon;
use super::doubts::doubt;
use super::eras;
use super::value::Us;
use crate::audit::Entry;

pub(super) fn note(
    c: &Connection,
    item: &Item,
    evidence: &Author,
    now: Us,
) -> rusqlite::Result<Intervened> {
    let Some(doubt) = doubt(c, item, now)? else {
        return Ok(Intervened::NoSuchItem);
    };
    if let Some(why) = doubt.refuses_evidence() {
        return Ok(Intervened::Refused(why));
    }
    abandon(c, item, now)?;
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let era = eras::current(c)?.number;
    // Without a lane: nothing was sent.
    c.prepare_cached(
        "INSERT INTO attempt (item_type, item_id, run, kind, state, lane, idempotency_key,
                              turn_at, era, settled_at, detail)
         SELECT item_type, item_id, run, 'PROBE', 'DONE', '', '', ?3, ?4, ?3, ?5
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
        before: Some(IN_DOUBT),
        after: Some(IN_DOUBT),
        actor: &evidence.actor,
        detail: &evidence.reason,
        ..Entry::default()
    };
    audit(c, now, &entry)?;
    Ok(Intervened::Yes)
}
