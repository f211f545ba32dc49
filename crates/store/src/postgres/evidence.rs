//! Evidence from elsewhere that an item in doubt was done.

use deadpool_postgres::Transaction;
use tollgate_core::id::Item;
use tollgate_core::ports::{Author, IN_DOUBT, Intervened, StoreResult};

use super::accounts::audit;
use super::doubts::{hold, let_go};
use super::run::{Params, execute};
use super::value::storable;
use crate::audit::Entry;

pub(super) async fn note(
    tx: &Transaction<'_>,
    item: &Item,
    evidence: &Author,
) -> StoreResult<Intervened> {
    // Without a lane: nothing was sent.
    const NOTE: &str = "INSERT INTO attempt (item_type, item_id, run, kind, state, lane,
                idempotency_key, turn_at, era, settled_at, detail)
         SELECT q.item_type, q.item_id, q.run, 'PROBE', 'DONE', '', '', t.at, e.number, t.at, $3
         FROM item_queue q, clock_era e, (SELECT tg_now()) t (at)
         WHERE q.item_type = $1 AND q.item_id = $2 AND e.one = 1";
    const DUE: &str = "UPDATE item_queue SET scheduled_exec_time = tg_now()
         WHERE item_type = $1 AND item_id = $2 AND queue_status = 'READY'";
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let key: Params<'_> = &[&kind, &id];
    let Some(doubt) = hold(tx, item).await? else {
        return Ok(Intervened::NoSuchItem);
    };
    if let Some(why) = doubt.refuses_evidence() {
        return Ok(Intervened::Refused(why));
    }
    if let Some(too_early) = let_go(tx, item, &doubt).await? {
        return Ok(too_early);
    }
    let detail = storable(&evidence.reason);
    execute(tx, NOTE, &[&kind, &id, &&*detail]).await?;
    execute(tx, DUE, key).await?;
    let entry = Entry {
        item: Some(item),
        action: "EVIDENCE",
        before: Some(IN_DOUBT),
        after: Some(IN_DOUBT),
        actor: &evidence.actor,
        detail: &evidence.reason,
        ..Entry::default()
    };
    audit(tx, &entry).await?;
    Ok(Intervened::Yes)
}
