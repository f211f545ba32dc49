//! What a clock that was ahead has left when it is set back: claims, starts and flows of a time that
//! has not come. Without this they would wait until it has.

use rusqlite::{Connection, params};
use tollgate_core::actor;
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{CLOCK_WAS_AHEAD, WAS_SET_BACK};

use crate::audit::Entry;
use crate::sqlite::accounts::audit;
use crate::sqlite::connection::value::Us;
use crate::value::micros;

pub(crate) fn make_due(c: &Connection, now: Us) -> rusqlite::Result<()> {
    for (item, before) in put_back(c, now)? {
        let entry = Entry {
            item: Some(&item),
            action: "PUT_BACK",
            before: Some(&before),
            after: Some("READY"),
            actor: actor::TOLLGATE,
            detail: WAS_SET_BACK,
            ..Entry::default()
        };
        audit(c, now, &entry)?;
    }
    restamp(c, now)?;
    let (now, ahead) = (now.0.as_microsecond(), ahead(now));
    c.prepare_cached(
        "UPDATE flow SET started_at = ?1, due_at = ?1 + (due_at - started_at)
         WHERE state = 'PENDING' AND is_child IN (0, 1) AND due_at > ?1 AND started_at > ?2",
    )?
    .execute(params![now, ahead])?;
    Ok(())
}

fn ahead(now: Us) -> i64 {
    now.0.as_microsecond() + micros(CLOCK_WAS_AHEAD)
}

/// Whoever asked for a time is not sent before it; whoever asked for none was created at the time
/// that it asked for.
fn put_back(c: &Connection, now: Us) -> rusqlite::Result<Vec<(Item, String)>> {
    let taken: Vec<(Item, String)> = c
        .prepare_cached(
            "SELECT q.item_type, q.item_id, q.queue_status FROM (
                 SELECT item_type, item_id, queue_status, run
                 FROM item_queue INDEXED BY item_queue_running
                 WHERE queue_status = 'DISPATCHED' AND finished_at IS NULL AND dispatched_at > ?1
                 UNION ALL
                 SELECT item_type, item_id, queue_status, run
                 FROM item_queue INDEXED BY item_queue_claimed
                 WHERE queue_status = 'CLAIMED' AND claimed_at > ?1) q
             WHERE NOT EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = q.item_type AND a.item_id = q.item_id AND a.run = q.run)",
        )?
        .query_map([ahead(now)], |row| {
            let (item_type, id) = (row.get::<_, String>(0)?, row.get::<_, String>(1)?);
            let item = Item::new(&ItemType::new(item_type), &ItemId::new(id));
            Ok((item, row.get(2)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    for (item, _) in &taken {
        c.prepare_cached(
            "UPDATE item_queue SET queue_status = 'READY', run = run + 1, last_error = ?4,
                    claimed_at = NULL, dispatched_at = NULL,
                    scheduled_exec_time = max(?3, coalesce(nullif(requested_time, created_at), ?3))
             WHERE item_type = ?1 AND item_id = ?2 AND queue_status IN ('CLAIMED', 'DISPATCHED')",
        )?
        .execute(params![
            item.item_type.as_str(),
            item.id.as_str(),
            now,
            WAS_SET_BACK
        ])?;
    }
    Ok(taken)
}

/// What has had its turn goes on; from now on it may be stale or orphaned.
fn restamp(c: &Connection, now: Us) -> rusqlite::Result<()> {
    c.prepare_cached(
        "UPDATE item_queue INDEXED BY item_queue_running SET dispatched_at = ?1
         WHERE queue_status = 'DISPATCHED' AND finished_at IS NULL AND dispatched_at > ?2",
    )?
    .execute(params![now, ahead(now)])?;
    c.prepare_cached(
        "UPDATE item_queue INDEXED BY item_queue_claimed SET claimed_at = ?1
         WHERE queue_status = 'CLAIMED' AND claimed_at > ?2",
    )?
    .execute(params![now, ahead(now)])?;
    Ok(())
}
