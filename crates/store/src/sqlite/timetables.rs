//! What a timetable is made from.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use rust_decimal::Decimal;
use tollgate_core::id::{ItemType, LaneName};
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::{
    Far, StoreResult, Tight, Timetables, Unsent, UnsentOnLane, WindowUse, cut_near,
};
use tollgate_core::timetable::SentOnSlot;
use tollgate_core::{SignedDuration, Timestamp};

use super::value::Us;
use super::{SqliteStore, lanes, turns};

#[async_trait]
impl Timetables for SqliteStore {
    async fn unsent(
        &self,
        lane: &LaneName,
        item_types: &[ItemType],
        near: u32,
    ) -> StoreResult<Option<UnsentOnLane>> {
        let asked = Asked {
            lane: lane.clone(),
            item_types: item_types.to_vec(),
            near,
            margin: self.options.gate_margin,
            now: self.clock.now(),
        };
        self.readers.read(move |c| asked.unsent(c)).await
    }

    async fn sent_on_slots(&self, lane: &LaneName, limit: u32) -> StoreResult<Vec<SentOnSlot>> {
        let lane = lane.clone();
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT q.scheduled_time, q.claimed_at, a.turn_at,
                        (SELECT b.turn_at FROM attempt b INDEXED BY attempt_turn
                         WHERE b.lane = a.lane AND b.turn_at < a.turn_at
                         ORDER BY b.turn_at DESC LIMIT 1)
                 FROM attempt a INDEXED BY attempt_turn
                 CROSS JOIN item_queue q ON q.item_type = a.item_type AND q.item_id = a.item_id
                 WHERE a.lane = ?1 AND a.run = 1 AND a.kind = 'SEND' AND q.run = 1
                   AND q.claimed_at IS NOT NULL
                 ORDER BY a.turn_at DESC LIMIT ?2",
            )?
            .query_map(params![lane.as_str(), limit], |row| {
                Ok(SentOnSlot {
                    slot: row.get::<_, Us>(0)?.0,
                    claimed_at: row.get::<_, Us>(1)?.0,
                    turn: row.get::<_, Us>(2)?.0,
                    before: row.get::<_, Option<Us>>(3)?.map(|us| us.0),
                })
            })?
            .collect()
        };
        self.readers.read(read).await
    }

    async fn tight(&self, lane: &LaneName, slack: SignedDuration) -> StoreResult<Vec<Tight>> {
        let lane = lane.clone();
        let slack = i64::try_from(slack.as_micros()).unwrap_or(i64::MAX);
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT q.scheduled_exec_time, q.deadline, q.item_type
                 FROM item_queue q INDEXED BY item_queue_tight
                 WHERE q.lane = ?1 AND q.deadline - q.scheduled_exec_time < ?2
                   AND q.deadline IS NOT NULL AND q.finished_at IS NULL
                   AND q.queue_status IN ('READY', 'CLAIMED', 'DISPATCHED')
                   AND (q.queue_status <> 'DISPATCHED' OR NOT EXISTS (SELECT 1 FROM attempt a
                        WHERE a.item_type = q.item_type AND a.item_id = q.item_id
                          AND a.run = q.run))",
            )?
            .query_map(params![lane.as_str(), slack], |row| {
                Ok(Tight {
                    due: row.get::<_, Us>(0)?.0,
                    deadline: row.get::<_, Us>(1)?.0,
                    item_type: ItemType::new(row.get::<_, String>(2)?),
                })
            })?
            .collect()
        };
        self.readers.read(read).await
    }

    async fn with_deadline(&self, lane: &LaneName) -> StoreResult<u64> {
        let lane = lane.clone();
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT count(*) FROM item_queue q INDEXED BY item_queue_tight
                 WHERE q.lane = ?1
                   AND q.deadline IS NOT NULL AND q.finished_at IS NULL
                   AND q.queue_status IN ('READY', 'CLAIMED', 'DISPATCHED')
                   AND (q.queue_status <> 'DISPATCHED' OR NOT EXISTS (SELECT 1 FROM attempt a
                        WHERE a.item_type = q.item_type AND a.item_id = q.item_id
                          AND a.run = q.run))",
            )?
            .query_row([lane.as_str()], |row| {
                row.get::<_, i64>(0).map(i64::unsigned_abs)
            })
        };
        self.readers.read(read).await
    }
}

struct Asked {
    lane: LaneName,
    item_types: Vec<ItemType>,
    near: u32,
    margin: Decimal,
    now: Timestamp,
}

impl Asked {
    fn unsent(&self, c: &Connection) -> rusqlite::Result<Option<UnsentOnLane>> {
        let Some(lane) = lanes::in_force(c, &self.lane)? else {
            return Ok(None);
        };
        let mut near = vec![];
        for item_type in &self.item_types {
            near.extend(self.ready(c, item_type)?);
        }
        let far = match cut_near(&mut near, self.near) {
            Some(from) => Some(self.far(c, &lane, from)?),
            None => None,
        };
        near.extend(self.under_way(c)?);
        Ok(Some(UnsentOnLane {
            now: self.now,
            last_turn: turns::last_turn(c, &self.lane)?,
            lane,
            near,
            far,
        }))
    }

    fn ready(&self, c: &Connection, item_type: &ItemType) -> rusqlite::Result<Vec<Unsent>> {
        c.prepare_cached(
            "SELECT item_type, scheduled_exec_time, hold_after, 1
             FROM item_queue INDEXED BY item_queue_ready
             WHERE lane = ?1 AND item_type = ?2 AND queue_status = 'READY'
             ORDER BY scheduled_exec_time LIMIT ?3",
        )?
        .query_map(
            params![self.lane.as_str(), item_type.as_str(), self.near + 1],
            unsent_from,
        )?
        .collect()
    }

    /// The indexes hold only what is under way, so that reading all of one costs little.
    fn under_way(&self, c: &Connection) -> rusqlite::Result<Vec<Unsent>> {
        c.prepare_cached(
            "SELECT item_type, scheduled_exec_time, hold_after, 0
             FROM item_queue INDEXED BY item_queue_claimed
             WHERE lane = ?1 AND queue_status = 'CLAIMED'
             UNION ALL
             SELECT q.item_type, q.scheduled_exec_time, q.hold_after, 0
             FROM item_queue q INDEXED BY item_queue_running
             WHERE q.lane = ?1 AND q.queue_status = 'DISPATCHED' AND q.finished_at IS NULL
               AND NOT EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = q.item_type AND a.item_id = q.item_id AND a.run = q.run)",
        )?
        .query_map([self.lane.as_str()], unsent_from)?
        .collect()
    }

    fn far(&self, c: &Connection, lane: &LaneInForce, from: Timestamp) -> rusqlite::Result<Far> {
        let windows = lane.windows(self.margin);
        let windows_from = windows.end_of(windows.start_of(from.max(self.now)));
        let mut count = 0;
        for item_type in &self.item_types {
            count += c
                .prepare_cached(
                    "SELECT count(*) FROM item_queue INDEXED BY item_queue_ready
                     WHERE lane = ?1 AND item_type = ?2 AND queue_status = 'READY'
                       AND scheduled_exec_time >= ?3 AND scheduled_exec_time < ?4",
                )?
                .query_row(
                    params![
                        self.lane.as_str(),
                        item_type.as_str(),
                        Us(from),
                        Us(windows_from)
                    ],
                    |row| row.get::<_, i64>(0).map(i64::unsigned_abs),
                )?;
        }
        let windows = c
            .prepare_cached(
                "SELECT window_start, used FROM lane_window
                 WHERE lane = ?1 AND window_start >= ?2 AND used > 0
                   AND generation = (SELECT generation FROM lane_plan WHERE lane = ?1)
                 ORDER BY window_start",
            )?
            .query_map(params![self.lane.as_str(), Us(windows_from)], |row| {
                Ok(WindowUse {
                    start: row.get::<_, Us>(0)?.0,
                    used: row.get(1)?,
                })
            })?
            .collect::<rusqlite::Result<_>>()?;
        Ok(Far {
            from,
            count,
            windows_from,
            windows,
        })
    }
}

fn unsent_from(row: &Row<'_>) -> rusqlite::Result<Unsent> {
    Ok(Unsent {
        item_type: ItemType::new(row.get::<_, String>(0)?),
        due: row.get::<_, Us>(1)?.0,
        hold_after: row.get::<_, Option<Us>>(2)?.map(|us| us.0),
        is_ready: row.get(3)?,
    })
}
