//! The plan of a lane as a whole: reading it, placing it anew, and recounting it.

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use rust_decimal::Decimal;
use tokio_postgres::Row;
use tollgate_core::Timestamp;
use tollgate_core::id::{ItemId, ItemType, LaneName};
use tollgate_core::lane_in_force::no_such_lane;
use tollgate_core::ports::{
    Author, Plans, Recounted, Replanned, Spot, StoreError, StoreResult, Waiting,
};
use tollgate_core::slot::steady_random;

use super::accounts::{Entry, audit};
use super::counters::{lock_plans, write_back};
use super::run::{Params, Urgency, all, execute, now, one, optional};
use super::value::{Us, micros};
use super::{PostgresStore, lanes};

/// Counters of older generations are forgotten so many at a time.
const FORGOTTEN_AT_ONCE: i64 = 10_000;

#[async_trait]
impl Plans for PostgresStore {
    async fn waiting(
        &self,
        lane: &LaneName,
        item_type: &ItemType,
        after: Option<Spot>,
        limit: u32,
    ) -> StoreResult<Vec<Waiting>> {
        let (lane, item_type) = (lane.clone(), item_type.clone());
        self.runner
            .read(Urgency::Normal, move |c| {
                Box::pin(async move { waiting(c, &lane, &item_type, i64::MAX, after, limit).await })
            })
            .await
    }

    async fn backlog(&self, lane: &LaneName, before: Timestamp) -> StoreResult<u64> {
        /// Type by type, since the index goes by type before it goes by time.
        const BACKLOG: &str = "WITH RECURSIVE kinds AS (
                 SELECT (SELECT min(item_type) FROM item_queue
                         WHERE lane = $1 AND queue_status = 'READY') AS kind
                 UNION ALL
                 SELECT (SELECT min(item_type) FROM item_queue
                         WHERE lane = $1 AND queue_status = 'READY' AND item_type > kinds.kind)
                 FROM kinds WHERE kinds.kind IS NOT NULL
             )
             SELECT coalesce(sum(due.n), 0)::bigint FROM kinds
             CROSS JOIN LATERAL (SELECT count(*) AS n FROM item_queue
                  WHERE lane = $1 AND queue_status = 'READY' AND item_type = kinds.kind
                    AND scheduled_exec_time < $2) due";
        let lane = lane.clone();
        self.runner
            .read(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let row = one(c, BACKLOG, &[&lane.as_str(), &Us(before)]).await?;
                    Ok(row.get::<_, i64>(0).unsigned_abs())
                })
            })
            .await
    }

    async fn begin_replan(&self, lane: &LaneName, author: Author) -> StoreResult<i64> {
        let lane = lane.clone();
        self.runner
            .write(Urgency::Normal, move |tx| {
                Box::pin(async move { begin(tx, &lane, &author).await })
            })
            .await
    }

    async fn replan_some(
        &self,
        lane: &LaneName,
        item_type: &ItemType,
        generation: i64,
        after: Option<Spot>,
        limit: u32,
    ) -> StoreResult<Vec<Replanned>> {
        let (lane, item_type, margin) = (lane.clone(), item_type.clone(), self.gate_margin);
        self.runner
            .write(Urgency::Normal, move |tx| {
                Box::pin(async move {
                    let chunk = Chunk {
                        lane: &lane,
                        item_type: &item_type,
                        generation,
                    };
                    chunk.place(tx, after, limit, margin).await
                })
            })
            .await
    }

    async fn end_replan(
        &self,
        lane: &LaneName,
        generation: i64,
        summary: String,
        author: Author,
    ) -> StoreResult<()> {
        let name = lane.clone();
        self.runner
            .write(Urgency::Normal, move |tx| {
                Box::pin(async move { end(tx, &name, generation, &summary, &author).await })
            })
            .await?;
        loop {
            let lane = lane.clone();
            let forget = self.runner.read(Urgency::Normal, move |c| {
                Box::pin(async move { forget(c, &lane, generation).await })
            });
            if forget.await? == 0 {
                return Ok(());
            }
        }
    }

    async fn open_replan(&self, lane: &LaneName) -> StoreResult<Option<i64>> {
        const OPEN: &str =
            "SELECT generation FROM lane_plan WHERE lane = $1 AND replan_since IS NOT NULL";
        let lane = lane.clone();
        self.runner
            .read(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let row = optional(c, OPEN, &[&lane.as_str()]).await?;
                    Ok(row.map(|row| row.get(0)))
                })
            })
            .await
    }

    async fn recount(&self, lane: &LaneName) -> StoreResult<Recounted> {
        let lane = lane.clone();
        self.runner
            .write(Urgency::Normal, move |tx| {
                Box::pin(async move { recount(tx, &lane).await })
            })
            .await
    }
}

/// Never attempted, of a generation before `before`, in the order of their slots. The page is cut
/// out of the queue first: with the conditions in one place the planner takes them for rare, and
/// sorts all that waits for every page. So a page may hold nothing that is wanted; then the next is
/// looked at.
async fn waiting(
    c: &impl GenericClient,
    lane: &LaneName,
    item_type: &ItemType,
    before: i64,
    after: Option<Spot>,
    limit: u32,
) -> StoreResult<Vec<Waiting>> {
    const PAGE: &str = "WITH page AS MATERIALIZED (
             SELECT item_type, item_id, scheduled_exec_time FROM item_queue
             WHERE lane = $1 AND item_type = $2 AND queue_status = 'READY'
               AND scheduled_exec_time >= $3 AND (scheduled_exec_time, item_id) > ($3, $4)
             ORDER BY scheduled_exec_time, item_id LIMIT $6
         )
         SELECT q.item_id, q.scheduled_exec_time, s.window_start, s.requested_time, s.deadline,
                s.generation < $5 AND sent.run IS NULL
         FROM page q
         CROSS JOIN LATERAL (SELECT window_start, requested_time, deadline, generation FROM slot
              WHERE item_type = q.item_type AND item_id = q.item_id LIMIT 1) s
         LEFT JOIN LATERAL (SELECT a.run FROM attempt a
              WHERE a.item_type = q.item_type AND a.item_id = q.item_id LIMIT 1) sent ON true
         ORDER BY q.scheduled_exec_time, q.item_id";
    let (mut due, mut id) = after.map_or((i64::MIN, String::new()), |spot| {
        (Us(spot.due).micros(), spot.id.to_string())
    });
    let (lane, kind) = (lane.as_str(), item_type.as_str());
    let most = i64::from(limit);
    loop {
        let params: Params<'_> = &[&lane, &kind, &due, &id, &before, &most];
        let rows = all(c, PAGE, params).await?;
        let wanted = rows.iter().filter(|row| row.get(5));
        let waiting: Vec<Waiting> = wanted.map(waiting_from).collect();
        match rows.last() {
            Some(last) if waiting.is_empty() => (due, id) = (last.get(1), last.get(0)),
            _ => return Ok(waiting),
        }
    }
}

fn waiting_from(row: &Row) -> Waiting {
    Waiting {
        id: ItemId::new(row.get::<_, String>(0)),
        due: row.get::<_, Us>(1).0,
        window: row.get::<_, Us>(2).0,
        requested: row.get::<_, Us>(3).0,
        deadline: row.get::<_, Option<Us>>(4).map(|us| us.0),
    }
}

async fn begin(tx: &Transaction<'_>, lane: &LaneName, author: &Author) -> StoreResult<i64> {
    const NEXT: &str = "UPDATE lane_plan SET generation = generation + 1, replan_since = tg_now()
         WHERE lane = $1 RETURNING generation";
    // What this window has sent already has used its room.
    const SENT: &str = "INSERT INTO lane_window (lane, generation, window_start, used)
         SELECT $1, $2, $3, count(*) FROM send_log
         WHERE lane = $1 AND turn_at >= $3 AND turn_at < $3 + $4 HAVING count(*) > 0";
    let Some(row) = optional(tx, NEXT, &[&lane.as_str()]).await? else {
        return Err(StoreError::Invalid(no_such_lane(lane)));
    };
    let generation: i64 = row.get(0);
    let in_force = lanes::lane(tx, lane).await?;
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
async fn adopt(tx: &Transaction<'_>, lane: &LaneName, generation: i64) -> StoreResult<()> {
    // A lookup for each, since the planner takes the few that are under way for many. Slots move
    // only while the plan is held, so that what was found is still there.
    const ADOPT: &str = "WITH under_way AS MATERIALIZED (
             SELECT item_type, item_id FROM item_queue
             WHERE lane = $1 AND queue_status = 'CLAIMED'
             UNION ALL
             SELECT item_type, item_id FROM item_queue
             WHERE lane = $1 AND queue_status = 'DISPATCHED' AND finished_at IS NULL
         ), adopted AS (
             UPDATE slot SET generation = $2
             WHERE ctid = ANY (ARRAY(SELECT old.ctid FROM under_way q
                  CROSS JOIN LATERAL (SELECT ctid FROM slot
                       WHERE item_type = q.item_type AND item_id = q.item_id
                         AND generation < $2 LIMIT 1) old))
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
struct Chunk<'a> {
    lane: &'a LaneName,
    item_type: &'a ItemType,
    generation: i64,
}

impl Chunk<'_> {
    async fn place(
        &self,
        tx: &Transaction<'_>,
        after: Option<Spot>,
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
             ), slots AS (
                 UPDATE slot s SET window_start = n.window_start,
                        scheduled_time = n.scheduled_time, generation = $5
                 FROM n WHERE s.item_type = $1 AND s.item_id = n.item_id
             )
             UPDATE item_queue q SET scheduled_exec_time = n.scheduled_time
             FROM n WHERE q.item_type = $1 AND q.item_id = n.item_id AND q.queue_status = 'READY'";
        let ids: Vec<&str> = done.iter().map(|d| d.item.id.as_str()).collect();
        let times: Vec<Us> = done.iter().map(|d| Us(d.to)).collect();
        let kind = self.item_type.as_str();
        let params: Params<'_> = &[&kind, &ids, &windows, &times, &self.generation];
        execute(tx, MOVE, params).await.map(drop)
    }
}

fn another_replan(lane: &LaneName) -> StoreError {
    StoreError::Invalid(format!("another replan of lane \"{lane}\" has begun"))
}

async fn end(
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

async fn forget(c: &impl GenericClient, lane: &LaneName, generation: i64) -> StoreResult<u64> {
    const FORGET: &str = "DELETE FROM lane_window WHERE ctid = ANY (ARRAY(
             SELECT ctid FROM lane_window WHERE lane = $1 AND generation < $2
             ORDER BY lane, generation, window_start LIMIT $3))";
    let params: Params<'_> = &[&lane.as_str(), &generation, &FORGOTTEN_AT_ONCE];
    execute(c, FORGET, params).await
}

/// The difference is looked for without a lock; only if there is one the plan is held and it is
/// looked for again.
async fn recount(tx: &Transaction<'_>, lane: &LaneName) -> StoreResult<Recounted> {
    const HOLD: &str = "SELECT generation FROM lane_plan WHERE lane = $1 FOR UPDATE";
    const CORRECT: &str = "INSERT INTO lane_window (lane, generation, window_start, used)
         SELECT $1::text, $2::bigint, * FROM unnest($3::bigint[], $4::bigint[])
         ON CONFLICT (lane, generation, window_start) DO UPDATE SET used = excluded.used";
    let mut recounted = Recounted::default();
    if differing(tx, lane).await?.is_empty() {
        return Ok(recounted);
    }
    let Some(row) = optional(tx, HOLD, &[&lane.as_str()]).await? else {
        return Ok(recounted);
    };
    let generation: i64 = row.get(0);
    let (mut windows, mut held) = (vec![], vec![]);
    for row in differing(tx, lane).await? {
        recounted.add(row.get(1), row.get(2));
        windows.push(row.get::<_, Us>(0));
        held.push(row.get::<_, i64>(2));
    }
    if recounted.windows > 0 {
        let params: Params<'_> = &[&lane.as_str(), &generation, &windows, &held];
        execute(tx, CORRECT, params).await?;
        if let Some(lane) = lanes::lane(tx, lane).await? {
            let now = now(tx).await?;
            lanes::forget_pointers(tx, &lane.name, lane.lane.window_size(), now).await?;
        }
        let author = Author::new("reconciliation", "counters differed from slots");
        write_audit(
            tx,
            "RECOUNTED",
            &author,
            &format!("lane {lane}: {recounted}"),
        )
        .await?;
    }
    Ok(recounted)
}

/// Windows ahead whose counter is not what lies in them: window, counter, slots.
async fn differing(tx: &Transaction<'_>, lane: &LaneName) -> StoreResult<Vec<Row>> {
    const DIFFERING: &str = "WITH plan AS MATERIALIZED (
             SELECT generation, (SELECT tg_now()) AS now FROM lane_plan
             WHERE lane = $1 AND replan_since IS NULL
         ), held AS (
             SELECT s.window_start, count(*) AS n
             FROM (SELECT item_type, item_id FROM item_queue
                   WHERE lane = $1 AND queue_status = 'READY'
                   UNION ALL
                   SELECT item_type, item_id FROM item_queue
                   WHERE lane = $1 AND queue_status = 'HELD'
                   UNION ALL
                   SELECT item_type, item_id FROM item_queue
                   WHERE lane = $1 AND queue_status = 'CLAIMED'
                   UNION ALL
                   SELECT item_type, item_id FROM item_queue
                   WHERE lane = $1 AND queue_status = 'DISPATCHED' AND finished_at IS NULL) q
             JOIN slot s ON s.item_type = q.item_type AND s.item_id = q.item_id
             JOIN plan ON s.generation = plan.generation AND s.window_start > plan.now
             GROUP BY s.window_start
         ), counted AS (
             SELECT w.window_start, w.used FROM lane_window w
             JOIN plan ON w.generation = plan.generation AND w.window_start > plan.now
             WHERE w.lane = $1
         )
         SELECT window_start, coalesce(used, 0), coalesce(n, 0)
         FROM held FULL JOIN counted USING (window_start)
         WHERE coalesce(used, 0) <> coalesce(n, 0)";
    all(tx, DIFFERING, &[&lane.as_str()]).await
}

async fn write_audit(
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
