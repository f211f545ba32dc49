//! Evidence from elsewhere that an item in doubt was done.

use deadpool_postgres::Transaction;
use tollgate_core::id::Item;
use tollgate_core::ports::{Author, Intervened, StoreResult, cannot_resolve};

use super::accounts::{Entry, audit};
use super::run::{Params, execute, optional};
use super::value::storable;

/// The queue row is held first: no attempt is opened between the look and the note.
pub(super) async fn note(
    tx: &Transaction<'_>,
    item: &Item,
    evidence: &Author,
) -> StoreResult<Intervened> {
    const HOLD: &str = "SELECT 1 FROM item_queue WHERE item_type = $1 AND item_id = $2 FOR UPDATE";
    const FOUND: &str = "SELECT r.status, EXISTS (SELECT 1 FROM attempt a
                WHERE a.item_type = r.item_type AND a.item_id = r.item_id AND a.state = 'OPEN'),
                EXISTS (SELECT 1 FROM attempt a
                WHERE a.item_type = r.item_type AND a.item_id = r.item_id AND a.state = 'DONE')
         FROM record r WHERE r.item_type = $1 AND r.item_id = $2 FOR UPDATE OF r";
    const NOTE: &str = "INSERT INTO attempt (item_type, item_id, run, kind, state, lane,
                idempotency_key, turn_at, era, settled_at, detail)
         SELECT q.item_type, q.item_id, q.run, 'PROBE', 'DONE', q.lane, '', t.at, e.number, t.at, $3
         FROM item_queue q, clock_era e, (SELECT tg_now()) t (at)
         WHERE q.item_type = $1 AND q.item_id = $2 AND e.one = 1";
    const DUE: &str = "UPDATE item_queue SET scheduled_exec_time = tg_now()
         WHERE item_type = $1 AND item_id = $2 AND queue_status = 'READY'";
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let key: Params<'_> = &[&kind, &id];
    if optional(tx, HOLD, key).await?.is_none() {
        return Ok(Intervened::NoSuchItem);
    }
    let Some(row) = optional(tx, FOUND, key).await? else {
        return Ok(Intervened::NoSuchItem);
    };
    let status: &str = row.get(0);
    if let Some(why) = cannot_resolve(status, row.get(1), row.get(2), None) {
        return Ok(Intervened::Refused(why));
    }
    let detail = storable(&evidence.reason);
    execute(tx, NOTE, &[&kind, &id, &&*detail]).await?;
    execute(tx, DUE, key).await?;
    let entry = Entry {
        item: Some(item),
        action: "EVIDENCE",
        before: Some(status),
        after: Some(status),
        actor: &evidence.actor,
        detail: &evidence.reason,
        ..Entry::default()
    };
    audit(tx, &entry).await?;
    Ok(Intervened::Yes)
}
