//! The plan of a lane as a whole: reading it, placing it anew, and recounting it.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tollgate_core::Timestamp;
use tollgate_core::id::{ItemId, ItemType, LaneName};
use tollgate_core::ports::{
    Author, Plans, QueuePosition, Recounted, Replanned, StoreResult, Waiting,
};

use super::{recount, replan};
use crate::sqlite::SqliteStore;
use crate::sqlite::connection::error::Failed;
use crate::sqlite::connection::value::Us;
use crate::urgency::Urgency;

#[async_trait]
impl Plans for SqliteStore {
    async fn waiting(
        &self,
        lane: &LaneName,
        item_type: &ItemType,
        after: Option<QueuePosition>,
        limit: u32,
    ) -> StoreResult<Vec<Waiting>> {
        let (lane, item_type) = (lane.clone(), item_type.clone());
        self.readers
            .read(move |c| waiting(c, &lane, &item_type, i64::MAX, after, limit))
            .await
    }

    async fn backlog(&self, lane: &LaneName, before: Timestamp, at_most: u32) -> StoreResult<u64> {
        let lane = lane.clone();
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT count(*) FROM (SELECT 1 FROM item_queue INDEXED BY item_queue_ready
                     WHERE lane = ?1 AND queue_status = 'READY' AND scheduled_exec_time < ?2
                     LIMIT ?3)",
            )?
            .query_row(params![lane.as_str(), Us(before), at_most], |row| {
                row.get::<_, i64>(0).map(i64::unsigned_abs)
            })
        };
        self.readers.read(read).await
    }

    async fn begin_replan(&self, lane: &LaneName, author: Author) -> StoreResult<i64> {
        let (lane, clock) = (lane.clone(), self.clock.clone());
        let write = move |c: &Connection| replan::begin(c, &lane, &author, Us(clock.now()));
        self.writer.write(Urgency::Normal, write).await
    }

    async fn replan_some(
        &self,
        lane: &LaneName,
        item_type: &ItemType,
        generation: i64,
        after: Option<QueuePosition>,
        limit: u32,
    ) -> StoreResult<Vec<Replanned>> {
        let (lane, item_type) = (lane.clone(), item_type.clone());
        let (clock, margin) = (self.clock.clone(), self.options.gate_margin);
        let write = move |c: &Connection| -> Result<Vec<Replanned>, Failed> {
            replan::same_generation(c, &lane, generation)?;
            replan::adopt(c, &lane, generation)?;
            let items = waiting(c, &lane, &item_type, generation, after, limit)?;
            let now = clock.now();
            Ok(replan::place(c, &lane, &item_type, items, margin, now)?)
        };
        self.writer.write(Urgency::Normal, write).await
    }

    async fn end_replan(
        &self,
        lane: &LaneName,
        generation: i64,
        summary: String,
        author: Author,
    ) -> StoreResult<()> {
        let (name, clock) = (lane.clone(), self.clock.clone());
        let write = move |c: &Connection| -> Result<(), Failed> {
            replan::same_generation(c, &name, generation)?;
            replan::adopt(c, &name, generation)?;
            Ok(replan::end(c, &name, &summary, &author, Us(clock.now()))?)
        };
        self.writer.write(Urgency::Normal, write).await?;
        loop {
            let lane = lane.clone();
            let forget = move |c: &Connection| replan::forget(c, &lane, generation);
            if self.writer.write(Urgency::Normal, forget).await? == 0 {
                return Ok(());
            }
        }
    }

    async fn open_replan(&self, lane: &LaneName) -> StoreResult<Option<i64>> {
        let lane = lane.clone();
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT generation FROM lane_plan WHERE lane = ?1 AND replan_since IS NOT NULL",
            )?
            .query_row([lane.as_str()], |row| row.get(0))
            .optional()
        };
        self.readers.read(read).await
    }

    async fn recount(&self, lane: &LaneName) -> StoreResult<Recounted> {
        let (name, now) = (lane.clone(), Us(self.clock.now()));
        let look = move |c: &Connection| recount::differing(c, &name, now);
        if self
            .readers
            .read(look)
            .await?
            .is_none_or(|wrong| wrong.windows.is_empty())
        {
            return Ok(Recounted::default());
        }
        let (lane, clock) = (lane.clone(), self.clock.clone());
        let write = move |c: &Connection| recount::recount(c, &lane, Us(clock.now()));
        self.writer.write(Urgency::Normal, write).await
    }
}

/// Never attempted, of a generation before `before`, in the order of their slots.
fn waiting(
    c: &Connection,
    lane: &LaneName,
    item_type: &ItemType,
    before: i64,
    after: Option<QueuePosition>,
    limit: u32,
) -> rusqlite::Result<Vec<Waiting>> {
    let (due, id) = after.map_or((i64::MIN, String::new()), |spot| {
        (spot.due.as_microsecond(), spot.id.to_string())
    });
    c.prepare_cached(
        "SELECT q.item_id, q.scheduled_exec_time, q.window_start, q.requested_time, q.deadline,
                q.hold_after
         FROM item_queue q INDEXED BY item_queue_ready
         WHERE q.lane = ?1 AND q.item_type = ?2 AND q.queue_status = 'READY'
           AND q.scheduled_exec_time >= ?3
           AND (q.scheduled_exec_time, q.item_id) > (?3, ?4) AND q.generation < ?5
           AND NOT EXISTS (SELECT 1 FROM attempt a
                WHERE a.item_type = q.item_type AND a.item_id = q.item_id)
         ORDER BY q.scheduled_exec_time, q.item_id LIMIT ?6",
    )?
    .query_map(
        params![lane.as_str(), item_type.as_str(), due, id, before, limit],
        waiting_from,
    )?
    .collect()
}

fn waiting_from(row: &Row<'_>) -> rusqlite::Result<Waiting> {
    Ok(Waiting {
        id: ItemId::new(row.get::<_, String>(0)?),
        due: row.get::<_, Us>(1)?.0,
        window: row.get::<_, Us>(2)?.0,
        requested: row.get::<_, Us>(3)?.0,
        deadline: row.get::<_, Option<Us>>(4)?.map(|us| us.0),
        hold_after: row.get::<_, Option<Us>>(5)?.map(|us| us.0),
    })
}
