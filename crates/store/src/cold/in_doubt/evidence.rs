//! Evidence from elsewhere that an item in doubt was done.

use tollgate_core::id::Item;
use tollgate_core::ports::{ActionResult, Author, IN_DOUBT, StoreResult};

use super::{hold, let_go};
use crate::cold::audit::audit_move;
use crate::sql::{Sql, Tx, params};

pub(crate) async fn note(tx: &Tx, item: &Item, evidence: &Author) -> StoreResult<ActionResult> {
    // Without a lane: nothing was sent.
    const NOTE: Sql = Sql::each(
        "INSERT INTO attempt (item_type, item_id, run, kind, state, lane,
                idempotency_key, turn_at, era, settled_at, detail)
         SELECT q.item_type, q.item_id, q.run, 'PROBE', 'DONE', '', '', tg_now(), e.number,
                tg_now(), $3
         FROM item_queue q, clock_era e
         WHERE q.item_type = $1 AND q.item_id = $2 AND e.one = 1",
        "INSERT INTO attempt (item_type, item_id, number, run, kind, state, lane,
                idempotency_key, turn_at, era, settled_at, detail)
         SELECT q.item_type, q.item_id,
                (SELECT coalesce(max(a.number), 0) + 1 FROM attempt a
                 WHERE a.item_type = $1 AND a.item_id = $2),
                q.run, 'PROBE', 'DONE', '', '', tg_now(), e.number, tg_now(), $3
         FROM item_queue q, clock_era e
         WHERE q.item_type = $1 AND q.item_id = $2 AND e.one = 1",
    );
    const DUE: &str = "UPDATE item_queue SET scheduled_exec_time = tg_now()
         WHERE item_type = $1 AND item_id = $2 AND queue_status = 'READY'";
    let Some(doubt) = hold(tx, item).await? else {
        return Ok(ActionResult::NoSuchItem);
    };
    if let Some(why) = doubt.refuses_evidence() {
        return Ok(ActionResult::Refused(why));
    }
    if let Some(too_early) = let_go(tx, item, &doubt).await {
        return Ok(too_early);
    }
    let (kind, id) = (&item.item_type, &item.id);
    tx.execute(NOTE, params![kind, id, &evidence.reason]).await;
    tx.execute(DUE, params![kind, id]).await;
    audit_move(tx, item, "EVIDENCE", IN_DOUBT, IN_DOUBT, evidence).await;
    Ok(ActionResult::Yes)
}
