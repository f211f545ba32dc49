//! Claims: due items by their index, and stale claims by the batches that list them. A claim changes no index of an
//! item: what it has taken is in the row of its batch (docs/decisions/0067).

use deadpool_postgres::Transaction;
use rust_decimal::Decimal;
use tokio_postgres::Row;
use tollgate_core::id::{Fence, ItemId};
use tollgate_core::ports::{Claim, Claimed, StoreResult};

use crate::postgres::connection::run::{Params, all, lock_name, one};
use crate::postgres::connection::value::Count;
use crate::postgres::lanes;
use crate::value::{micros, until};

/// What could not be started before is not claimed ahead of its pause: only a try tells whether it
/// can be started now. The materialised part is what keeps a claim within its limit: as a sub-select the planner may
/// run it again and again, each time with other rows.
const DUE: &str = "WITH clock AS MATERIALIZED (SELECT tg_now() AS now),
     due AS MATERIALIZED (
         SELECT item_type, item_id FROM item_queue
         WHERE item_type = $1 AND lane = $2 AND queue_part = 'O' AND queue_status = 'READY'
           AND scheduled_exec_time <= (SELECT now FROM clock) + $3
           AND (retry_count = 0 OR scheduled_exec_time <= (SELECT now FROM clock))
         ORDER BY scheduled_exec_time LIMIT $4
         FOR UPDATE SKIP LOCKED
     ), moved AS (
         UPDATE item_queue q SET
             queue_status = CASE WHEN b.item_id IS NULL THEN 'DEAD' ELSE 'CLAIMED' END,
             last_error = CASE WHEN b.item_id IS NULL THEN 'its body is missing'
                               ELSE q.last_error END,
             fence = q.fence + 1, claimed_at = (SELECT now FROM clock), dispatch_batch_id = $5
         FROM due
         LEFT JOIN item_body b ON b.item_type = due.item_type AND b.item_id = due.item_id
         WHERE q.item_type = due.item_type AND q.item_id = due.item_id
         RETURNING q.item_type, q.item_id, q.run, q.fence, q.scheduled_exec_time, q.scheduled_time,
                   b.body
     ), buried AS (
         INSERT INTO audit_log (batch_id, item_type, item_id, action, status_after, actor, detail,
                                created_at)
         SELECT $5, item_type, item_id, 'DEAD', 'DEAD', 'dispatcher', 'its body is missing',
                (SELECT now FROM clock)
         FROM moved WHERE body IS NULL
     ), listed_as AS (
         INSERT INTO batch AS b (lane, item_type, batch_id, claimed_at, items)
         SELECT $2, $1, $5, (SELECT now FROM clock), array_agg(item_id)
         FROM moved WHERE body IS NOT NULL HAVING count(*) > 0
         ON CONFLICT (lane, item_type, batch_id) DO UPDATE SET items = b.items || excluded.items
     )
     SELECT item_id, run, fence, scheduled_exec_time, body, (SELECT now FROM clock),
            scheduled_time = scheduled_exec_time
     FROM moved WHERE body IS NOT NULL ORDER BY scheduled_exec_time";

/// A stale claim may have a flow that nobody has heard of. The next run takes the item away from it.
const STALE: &str = "WITH clock AS MATERIALIZED (SELECT tg_now() AS now),
     listed AS MATERIALIZED (
         SELECT item_type, item_id FROM under_way
         WHERE item_type = $1 AND lane = $2
           AND batch_claimed_at <= (SELECT now FROM clock) - $3
           AND queue_status = 'CLAIMED' AND claimed_at <= (SELECT now FROM clock) - $3
         ORDER BY claimed_at LIMIT $4
     ), due AS MATERIALIZED (
         SELECT q.item_type, q.item_id FROM listed CROSS JOIN LATERAL (
             SELECT item_type, item_id FROM item_queue
             WHERE item_type = listed.item_type AND item_id = listed.item_id
               AND queue_status = 'CLAIMED' AND claimed_at <= (SELECT now FROM clock) - $3
             LIMIT 1 FOR UPDATE SKIP LOCKED) q
     ), moved AS (
         UPDATE item_queue q SET
             queue_status = CASE WHEN b.item_id IS NULL THEN 'DEAD' ELSE 'CLAIMED' END,
             last_error = CASE WHEN b.item_id IS NULL THEN 'its body is missing'
                               ELSE q.last_error END,
             fence = q.fence + 1, run = q.run + 1, claimed_at = (SELECT now FROM clock), dispatch_batch_id = $5
         FROM due
         LEFT JOIN item_body b ON b.item_type = due.item_type AND b.item_id = due.item_id
         WHERE q.item_type = due.item_type AND q.item_id = due.item_id
         RETURNING q.item_type, q.item_id, q.run, q.fence, q.scheduled_exec_time, q.scheduled_time,
                   b.body
     ), buried AS (
         INSERT INTO audit_log (batch_id, item_type, item_id, action, status_after, actor, detail,
                                created_at)
         SELECT $5, item_type, item_id, 'DEAD', 'DEAD', 'dispatcher', 'its body is missing',
                (SELECT now FROM clock)
         FROM moved WHERE body IS NULL
     ), listed_as AS (
         INSERT INTO batch AS b (lane, item_type, batch_id, claimed_at, items)
         SELECT $2, $1, $5, (SELECT now FROM clock), array_agg(item_id)
         FROM moved WHERE body IS NOT NULL HAVING count(*) > 0
         ON CONFLICT (lane, item_type, batch_id) DO UPDATE SET items = b.items || excluded.items
     )
     SELECT item_id, run, fence, scheduled_exec_time, body, (SELECT now FROM clock),
            scheduled_time = scheduled_exec_time
     FROM moved WHERE body IS NOT NULL ORDER BY scheduled_exec_time";

/// What the batches of a lane list, ended or not; and whether one of this type may hold claims that are stale.
const LISTED: &str = "SELECT count(*), coalesce(sum(cardinality(items)), 0)::bigint,
         coalesce(min(claimed_at) FILTER (WHERE item_type = $2) <= (SELECT tg_now()) - $3, false)
     FROM batch WHERE lane = $1";

/// What is claimed or dispatched on a lane, of whatever type, and has not had its turn; and batches of which nothing is
/// under way any more are forgotten. Nobody else writes the batches of a lane while its claims are locked, and an item
/// comes under way by a claim alone, so what is forgotten stays so.
const UNSENT: &str = "WITH listed AS MATERIALIZED (
         SELECT b.item_type, b.batch_id, l.under_way, l.unsent FROM batch b
         CROSS JOIN LATERAL (
             SELECT count(*) AS under_way, count(*) FILTER (WHERE sent.run IS NULL) AS unsent
             FROM under_way u
             LEFT JOIN LATERAL (SELECT a.run FROM attempt a
                  WHERE u.queue_status = 'DISPATCHED' AND a.item_type = u.item_type
                    AND a.item_id = u.item_id AND a.run = u.run
                  LIMIT 1) sent ON true
             WHERE u.lane = b.lane AND u.item_type = b.item_type AND u.batch_id = b.batch_id) l
         WHERE b.lane = $1
     ), forgotten AS (
         DELETE FROM batch b USING listed
         WHERE b.lane = $1 AND b.item_type = listed.item_type AND b.batch_id = listed.batch_id
           AND listed.under_way = 0
     )
     SELECT coalesce(sum(unsent), 0)::bigint FROM listed";

/// Once in so many batches they are looked through, whatever the credit: those that have ended are in the way of all who
/// ask what is under way.
const LOOKED_THROUGH_EVERY: i64 = 8;

/// Claims of one lane go one after the other, since each must see what the others have taken of
/// its credit; `SKIP LOCKED` is for the rows that senders hold.
pub(super) async fn claim(
    tx: &Transaction<'_>,
    claim: &Claim,
    margin: Decimal,
) -> StoreResult<Vec<Claimed>> {
    lock_name(tx, &format!("tollgate/claim/{}", claim.lane)).await?;
    let (lane, kind) = (claim.lane.as_str(), claim.item_type.as_str());
    let stale = micros(claim.stale_after);
    let key: Params<'_> = &[&lane, &kind, &stale];
    let in_force = lanes::lane(tx, &claim.lane);
    let (in_force, listed) = futures::try_join!(in_force, one(tx, LISTED, key))?;
    let credit = |unsent| {
        let lane = in_force.as_ref();
        lane.map_or(0, |lane| lane.credit(margin, claim.credit_horizon, unsent))
    };
    let (batches, at_most) = (listed.get::<_, i64>(0), listed.get::<_, Count>(1).0);
    let mut left = credit(at_most);
    // To count what is under way is to look up each item, so it is done where it can make a difference.
    let is_time = left < claim.limit || batches % LOOKED_THROUGH_EVERY == 0;
    if at_most > 0 && is_time {
        left = credit(one(tx, UNSENT, &[&lane]).await?.get::<_, Count>(0).0);
    }
    let mut claimed = vec![];
    if listed.get(2) {
        // Counted as unsent already, so the credit does not bind them.
        claimed = take(tx, STALE, claim, stale, claim.limit).await?;
    }
    let taken = u32::try_from(claimed.len()).unwrap_or(u32::MAX);
    let limit = claim.limit.saturating_sub(taken).min(left);
    if limit > 0 {
        claimed.extend(take(tx, DUE, claim, micros(claim.ahead), limit).await?);
    }
    Ok(claimed)
}

async fn take(
    tx: &Transaction<'_>,
    sql: &str,
    claim: &Claim,
    distance: i64,
    limit: u32,
) -> StoreResult<Vec<Claimed>> {
    let (kind, lane) = (claim.item_type.as_str(), claim.lane.as_str());
    let (batch, limit) = (claim.batch.as_str(), i64::from(limit));
    let rows = all(tx, sql, &[&kind, &lane, &distance, &limit, &batch]).await?;
    Ok(rows.iter().map(claimed_from).collect())
}

fn claimed_from(row: &Row) -> Claimed {
    Claimed {
        id: ItemId::new(row.get::<_, String>(0)),
        run: row.get::<_, Count>(1).0,
        fence: Fence(row.get(2)),
        delay: until(row.get(5), row.get(3)),
        on_slot: row.get(6),
        context_json: row.get(4),
    }
}
