//! The plan of a lane as a whole: reading it, placing it anew, and recounting it.

use async_trait::async_trait;
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use tollgate_core::Timestamp;
use tollgate_core::id::{ItemId, ItemType, LaneName};
use tollgate_core::ports::{
    Author, Plans, QueuePosition, Recounted, Replanned, StoreResult, Waiting,
};

use super::{recount, replan};
use crate::postgres::PostgresStore;
use crate::postgres::connection::run::{Params, all, one, optional};
use crate::postgres::connection::value::Us;
use crate::urgency::Urgency;

#[async_trait]
impl Plans for PostgresStore {
    async fn waiting(
        &self,
        lane: &LaneName,
        item_type: &ItemType,
        after: Option<QueuePosition>,
        limit: u32,
    ) -> StoreResult<Vec<Waiting>> {
        let (lane, item_type) = (lane.clone(), item_type.clone());
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { waiting(c, &lane, &item_type, i64::MAX, after, limit).await })
            })
            .await
    }

    async fn backlog(&self, lane: &LaneName, before: Timestamp, at_most: u32) -> StoreResult<u64> {
        /// Type by type, since the index goes by type before it goes by time. In order and up to a number
        /// that the planner does not know: it takes what is due for a good part of the table, and would read all of it.
        /// What is under way is open, too, and counted apart: so the index alone is read.
        const BACKLOG: &str = "WITH RECURSIVE kinds AS (
                 SELECT (SELECT item_type FROM item_queue
                         WHERE lane = $1 AND queue_part = 'O' ORDER BY item_type LIMIT 1) AS kind
                 UNION ALL
                 SELECT (SELECT item_type FROM item_queue
                         WHERE lane = $1 AND queue_part = 'O' AND item_type > kinds.kind
                         ORDER BY item_type LIMIT 1)
                 FROM kinds WHERE kinds.kind IS NOT NULL
             )
             SELECT least(coalesce(sum(due.n - taken.n), 0), $3)::bigint FROM kinds
             CROSS JOIN LATERAL (SELECT count(*) AS n FROM under_way
                  WHERE lane = $1 AND item_type = kinds.kind AND scheduled_exec_time < $2) taken
             CROSS JOIN LATERAL (SELECT count(*) AS n FROM (SELECT 1 FROM item_queue
                  WHERE lane = $1 AND queue_part = 'O' AND item_type = kinds.kind
                    AND scheduled_exec_time < $2
                  ORDER BY scheduled_exec_time LIMIT (SELECT $3::bigint + taken.n)) few) due";
        let (lane, at_most) = (lane.clone(), i64::from(at_most));
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let row = one(c, BACKLOG, &[&lane.as_str(), &Us(before), &at_most]).await?;
                    Ok(row.get::<_, i64>(0).unsigned_abs())
                })
            })
            .await
    }

    async fn begin_replan(&self, lane: &LaneName, author: Author) -> StoreResult<i64> {
        let lane = lane.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { replan::begin(tx, &lane, &author).await })
            })
            .await
    }

    async fn replan_some(
        &self,
        lane: &LaneName,
        item_type: &ItemType,
        generation: i64,
        after: Option<QueuePosition>,
        limit: u32,
    ) -> StoreResult<Vec<Replanned>> {
        let (lane, item_type, margin) = (lane.clone(), item_type.clone(), self.gate_margin);
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move {
                    let chunk = replan::Chunk {
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
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { replan::end(tx, &name, generation, &summary, &author).await })
            })
            .await?;
        loop {
            let lane = lane.clone();
            let forget = self.runner.autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { replan::forget(c, &lane, generation).await })
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
            .autocommit(Urgency::Normal, move |c| {
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
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { recount::recount(tx, &lane).await })
            })
            .await
    }
}

/// Never attempted, of a generation before `before`, in the order of their slots. The page is cut
/// out of the queue first: with the conditions in one place the planner takes them for rare, and
/// sorts all that waits for every page. So a page may hold nothing that is wanted; then the next is
/// looked at.
pub(super) async fn waiting(
    c: &impl GenericClient,
    lane: &LaneName,
    item_type: &ItemType,
    before: i64,
    after: Option<QueuePosition>,
    limit: u32,
) -> StoreResult<Vec<Waiting>> {
    const PAGE: &str = "WITH page AS MATERIALIZED (
             SELECT item_type, item_id, scheduled_exec_time, window_start, requested_time, deadline,
                    hold_after, generation
             FROM item_queue
             WHERE lane = $1 AND item_type = $2 AND queue_part = 'O' AND queue_status = 'READY'
               AND scheduled_exec_time >= $3 AND (scheduled_exec_time, item_id) > ($3, $4)
             ORDER BY scheduled_exec_time, item_id LIMIT $6
         )
         SELECT q.item_id, q.scheduled_exec_time, q.window_start, q.requested_time, q.deadline,
                q.hold_after, q.generation < $5 AND sent.run IS NULL
         FROM page q
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
        let wanted = rows.iter().filter(|row| row.get(6));
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
        hold_after: row.get::<_, Option<Us>>(5).map(|us| us.0),
    }
}
