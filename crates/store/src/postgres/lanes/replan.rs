//! A replan, step by step: a new generation of the lane's plan, in which everything that waits is
//! placed anew.

use deadpool_postgres::{GenericClient, Transaction};
use rust_decimal::Decimal;
use tollgate_core::id::{ItemType, LaneName};
use tollgate_core::lane_in_force::no_such_lane;
use tollgate_core::ports::{Author, QueuePosition, Replanned, StoreError, StoreResult};
use tollgate_core::slot::steady_random;

use super::counters::{lock_plans, write_back};
use super::plans::waiting;
use crate::audit::Entry;
use crate::postgres::accounts::audit;
use crate::postgres::connection::run::{Params, execute, now, optional};
use crate::postgres::connection::value::Us;
use crate::replan::{FORGOTTEN_AT_ONCE, another_replan};
use crate::value::micros;

pub(super) async fn begin(
    tx: &Transaction<'_>,
    lane: &LaneName,
    author: &Author,
) -> StoreResult<i64> {
    const NEXT: &str = "UPDATE lane_plan SET generation = generation + 1, replan_since = tg_now()
         WHERE lane = $1 RETURNING generation";
    // What this window has sent already has used its room.
    const SENT: &str = "INSERT INTO lane_window (lane, generation, window_start, used)
         SELECT $1, $2, $3, count(*) FROM attempt
         WHERE lane = $1 AND turn_at >= $3 AND turn_at < $3 + $4 HAVING count(*) > 0";
    let Some(row) = optional(tx, NEXT, &[&lane.as_str()]).await? else {
        return Err(StoreError::Invalid(no_such_lane(lane)));
    };
    let generation: i64 = row.get(0);
    let in_force = super::lane(tx, lane).await?;
    let in_force = in_force.ok_or_else(|| StoreError::Invalid(no_such_lane(lane)))?;
    let size = micros(in_force.lane.window_size());
    let now = now(tx).await?.micros();
    let window = now - now.rem_euclid(size);
    let params: Params<'_> = &[&lane.as_str(), &generation, &window, &size];
    execute(tx, SENT, params).await?;
    adopt(tx, lane, generation).await?;
    let detail = format!("lane {lane}, generation {generation}: {}", author.reason);
    write_audit(tx, "REPLAN_BEGUN", author, &detail).await?;
    Ok(generation)
}

/// What is under way keeps its slot, which counts in this generation from here on: before the
/// first item is placed anew, and again later, since some are claimed meanwhile.
pub(super) async fn adopt(
    tx: &Transaction<'_>,
    lane: &LaneName,
    generation: i64,
) -> StoreResult<()> {
    // A lookup for each, since the planner takes the few that are under way for many, and by their places, which
    // stay once they are locked. Locked one by one in the order of their keys, as everywhere.
    const ADOPT: &str = "WITH old AS MATERIALIZED (
             SELECT item_type, item_id FROM under_way WHERE lane = $1 AND generation < $2
             ORDER BY item_type, item_id
         ), held AS MATERIALIZED (
             SELECT q.place FROM old CROSS JOIN LATERAL (SELECT ctid AS place FROM item_queue
                  WHERE item_type = old.item_type AND item_id = old.item_id AND generation < $2
                  LIMIT 1 FOR UPDATE) q
         ), adopted AS (
             UPDATE item_queue SET generation = $2
             WHERE ctid = ANY (ARRAY(SELECT place FROM held))
             RETURNING window_start
         )
         INSERT INTO lane_window AS w (lane, generation, window_start, used)
         SELECT $1, $2, window_start, count(*) FROM adopted GROUP BY window_start
         ON CONFLICT (lane, generation, window_start) DO UPDATE SET used = w.used + excluded.used";
    execute(tx, ADOPT, &[&lane.as_str(), &generation])
        .await
        .map(drop)
}

/// One step of a replan.
pub(super) struct Chunk<'a> {
    pub(super) lane: &'a LaneName,
    pub(super) item_type: &'a ItemType,
    pub(super) generation: i64,
}

impl Chunk<'_> {
    pub(super) async fn place(
        &self,
        tx: &Transaction<'_>,
        after: Option<QueuePosition>,
        limit: u32,
        margin: Decimal,
    ) -> StoreResult<Vec<Replanned>> {
        let (lane, item_type, generation) = (self.lane, self.item_type, self.generation);
        let mut plans = lock_plans(tx, &[lane.as_str()], margin).await?;
        let Some(plan) = plans.get_mut(lane).filter(|p| p.generation == generation) else {
            return Err(another_replan(lane));
        };
        adopt(tx, lane, generation).await?;
        let items = waiting(tx, lane, item_type, generation, after, limit).await?;
        let now = now(tx).await?.0;
        let wanted = items.iter().map(|item| item.requested.max(now));
        plan.load_for(tx, lane, wanted).await?;
        let mut done = Vec::with_capacity(items.len());
        let mut windows = Vec::with_capacity(items.len());
        for item in items {
            let from = item.requested.max(now);
            let place = plan.place(tx, lane, from, steady_random(&item.id)).await?;
            let (window, to) = place.map_or((item.window, item.due), |p| (p.window, p.scheduled));
            windows.push(Us(window));
            done.push(Replanned { item, to });
        }
        self.write(tx, &done, &windows).await?;
        write_back(tx, plans.iter()).await?;
        Ok(done)
    }

    /// An item that was claimed meanwhile keeps its old time in the queue, and runs by it.
    async fn write(
        &self,
        tx: &Transaction<'_>,
        done: &[Replanned],
        windows: &[Us],
    ) -> StoreResult<()> {
        const MOVE: &str = "WITH n AS MATERIALIZED (
                 SELECT * FROM unnest($2::text[], $3::bigint[], $4::bigint[])
                 AS n (item_id, window_start, scheduled_time)
             ), held AS MATERIALIZED (
                 SELECT q.item_id FROM n JOIN item_queue q ON q.item_type = $1 AND q.item_id = n.item_id
                 ORDER BY q.item_id FOR UPDATE OF q
             )
             UPDATE item_queue q SET window_start = n.window_start,
                    scheduled_time = n.scheduled_time, generation = $5,
                    scheduled_exec_time = CASE q.queue_status WHEN 'READY' THEN n.scheduled_time
                                               ELSE q.scheduled_exec_time END
             FROM held JOIN n ON n.item_id = held.item_id
             WHERE q.item_type = $1 AND q.item_id = held.item_id";
        let ids: Vec<&str> = done.iter().map(|d| d.item.id.as_str()).collect();
        let times: Vec<Us> = done.iter().map(|d| Us(d.to)).collect();
        let kind = self.item_type.as_str();
        let params: Params<'_> = &[&kind, &ids, &windows, &times, &self.generation];
        execute(tx, MOVE, params).await.map(drop)
    }
}

pub(super) async fn end(
    tx: &Transaction<'_>,
    lane: &LaneName,
    generation: i64,
    summary: &str,
    author: &Author,
) -> StoreResult<()> {
    const END: &str =
        "UPDATE lane_plan SET replan_since = NULL WHERE lane = $1 AND generation = $2";
    if execute(tx, END, &[&lane.as_str(), &generation]).await? == 0 {
        return Err(another_replan(lane));
    }
    adopt(tx, lane, generation).await?;
    let detail = format!("lane {lane}: {summary} ({})", author.reason);
    write_audit(tx, "REPLANNED", author, &detail).await
}

pub(super) async fn forget(
    c: &impl GenericClient,
    lane: &LaneName,
    generation: i64,
) -> StoreResult<u64> {
    const FORGET: &str = "DELETE FROM lane_window WHERE ctid = ANY (ARRAY(
             SELECT ctid FROM lane_window WHERE lane = $1 AND generation < $2
             ORDER BY lane, generation, window_start LIMIT $3))";
    let most = i64::from(FORGOTTEN_AT_ONCE);
    let params: Params<'_> = &[&lane.as_str(), &generation, &most];
    execute(c, FORGET, params).await
}

pub(super) async fn write_audit(
    tx: &Transaction<'_>,
    action: &str,
    author: &Author,
    detail: &str,
) -> StoreResult<()> {
    let entry = Entry {
        action,
        actor: &author.actor,
        detail,
        ..Entry::default()
    };
    audit(tx, &entry).await
}
