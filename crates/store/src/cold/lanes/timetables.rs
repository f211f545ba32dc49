//! What a timetable is made from.

use async_trait::async_trait;
use rust_decimal::Decimal;
use tollgate_core::id::{BulkId, ItemType, LaneName};
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::{
    Far, StoreResult, Tight, Timetables, Unsent, UnsentOnLane, WindowUse, cut_near,
};
use tollgate_core::timetable::SentOnSlot;
use tollgate_core::{SignedDuration, Timestamp};

use crate::sql::{Row, Sql, Tx, params};
use crate::store_on::{Database, StoreOn};

#[async_trait]
impl<D: Database> Timetables for StoreOn<D> {
    async fn unsent(
        &self,
        lane: &LaneName,
        item_types: &[ItemType],
        near: u32,
    ) -> StoreResult<Option<UnsentOnLane>> {
        let asked = UnsentQuery {
            lane: lane.clone(),
            item_types: item_types.to_vec(),
            near,
            margin: self.0.gate_margin(),
        };
        self.read(move |tx| async move { asked.unsent(&tx).await })
            .await
    }

    async fn sent_on_slots(&self, lane: &LaneName, limit: u32) -> StoreResult<Vec<SentOnSlot>> {
        let wanted = params![lane, limit];
        self.read(move |tx| async move {
            let sent = |row: &Row| {
                Ok(SentOnSlot {
                    slot: row.get("scheduled_time")?,
                    claimed_at: row.get("claimed_at")?,
                    turn: row.get("turn_at")?,
                    before: row.get("before")?,
                })
            };
            tx.rows(SENT, wanted).await.iter().map(sent).collect()
        })
        .await
    }

    async fn tight(&self, lane: &LaneName, slack: SignedDuration) -> StoreResult<Vec<Tight>> {
        let wanted = params![lane, bounded(slack)];
        self.read(move |tx| async move {
            let rows = tx.rows(TIGHT, wanted).await;
            rows.iter().map(tight_from).collect()
        })
        .await
    }

    async fn tight_in_bulk(
        &self,
        lane: &LaneName,
        item_type: &ItemType,
        bulk: &BulkId,
        slack: SignedDuration,
    ) -> StoreResult<Vec<Tight>> {
        let wanted = params![lane, bounded(slack), item_type, bulk];
        self.read(move |tx| async move {
            let rows = tx.rows(TIGHT_IN_BULK, wanted).await;
            rows.iter().map(tight_from).collect()
        })
        .await
    }

    async fn with_deadline(&self, lane: &LaneName) -> StoreResult<u64> {
        let wanted = params![lane];
        self.read(move |tx| async move { tx.one(WITH_DEADLINE, wanted).await?.get("n") })
            .await
    }
}

/// On PostgreSQL some more are looked at than are wanted, and each is looked up by its keys. On
/// SQLite the order of the tables is the order of the loops.
const SENT: Sql = Sql::each(
    "SELECT q.scheduled_time, q.claimed_at, a.turn_at,
            (SELECT b.turn_at FROM attempt b INDEXED BY attempt_turn
             WHERE b.lane = a.lane AND b.turn_at < a.turn_at
             ORDER BY b.turn_at DESC LIMIT 1) AS before
     FROM attempt a INDEXED BY attempt_turn
     CROSS JOIN item_queue q ON q.item_type = a.item_type AND q.item_id = a.item_id
     WHERE a.lane = $1 AND a.run = 1 AND a.kind = 'SEND' AND q.run = 1
       AND q.claimed_at IS NOT NULL
     ORDER BY a.turn_at DESC LIMIT $2",
    "WITH log AS MATERIALIZED (
         SELECT item_type, item_id, run, kind, turn_at,
                lag(turn_at) OVER (ORDER BY turn_at) AS before
         FROM (SELECT item_type, item_id, run, kind, turn_at FROM attempt WHERE lane = $1
               ORDER BY turn_at DESC LIMIT $2::bigint * 2) last
     )
     SELECT q.scheduled_time, q.claimed_at, log.turn_at, log.before
     FROM log
     CROSS JOIN LATERAL (SELECT scheduled_time, claimed_at FROM item_queue
          WHERE item_type = log.item_type AND item_id = log.item_id AND run = 1
            AND claimed_at IS NOT NULL LIMIT 1) q
     WHERE log.run = 1 AND log.kind = 'SEND'
     ORDER BY log.turn_at DESC LIMIT $2::bigint",
);

/// A lookup for each that is under way: PostgreSQL takes them for a good part of the table.
const TIGHT: Sql = Sql::each(
    "SELECT q.scheduled_exec_time, q.deadline, q.item_type, q.currency, q.amount_minor
     FROM item_queue q INDEXED BY item_queue_tight
     WHERE q.lane = $1 AND q.deadline - q.scheduled_exec_time < $2
       AND q.deadline IS NOT NULL AND q.finished_at IS NULL
       AND q.queue_status IN ('READY', 'CLAIMED', 'DISPATCHED')
       AND (q.queue_status <> 'DISPATCHED' OR NOT EXISTS (SELECT 1 FROM attempt a
            WHERE a.item_type = q.item_type AND a.item_id = q.item_id AND a.run = q.run))",
    "SELECT q.scheduled_exec_time, q.deadline, q.item_type, q.currency, q.amount_minor FROM item_queue q
     LEFT JOIN LATERAL (SELECT a.run FROM attempt a
          WHERE q.queue_status = 'DISPATCHED' AND a.item_type = q.item_type
            AND a.item_id = q.item_id AND a.run = q.run LIMIT 1) sent ON true
     WHERE q.lane = $1 AND q.deadline - q.scheduled_exec_time < $2
       AND q.deadline IS NOT NULL AND q.queue_part = 'O' AND sent.run IS NULL",
);

/// By the items of the bulk, each looked up by its key: a lane may hold many more.
const TIGHT_IN_BULK: Sql = Sql::each(
    "SELECT q.scheduled_exec_time, q.deadline, q.item_type, q.currency, q.amount_minor
     FROM item_body b INDEXED BY item_body_bulk
     CROSS JOIN item_queue q ON q.item_type = b.item_type AND q.item_id = b.item_id
     WHERE b.item_type = $3 AND b.bulk_id = $4
       AND q.lane = $1 AND q.deadline - q.scheduled_exec_time < $2
       AND q.deadline IS NOT NULL AND q.finished_at IS NULL
       AND q.queue_status IN ('READY', 'CLAIMED', 'DISPATCHED')
       AND (q.queue_status <> 'DISPATCHED' OR NOT EXISTS (SELECT 1 FROM attempt a
            WHERE a.item_type = q.item_type AND a.item_id = q.item_id AND a.run = q.run))",
    "SELECT q.scheduled_exec_time, q.deadline, q.item_type, q.currency, q.amount_minor
     FROM item_body b
     CROSS JOIN LATERAL (SELECT * FROM item_queue i
          WHERE i.item_type = b.item_type AND i.item_id = b.item_id
            AND i.lane = $1 AND i.deadline - i.scheduled_exec_time < $2
            AND i.deadline IS NOT NULL AND i.finished_at IS NULL
            AND i.queue_status IN ('READY', 'CLAIMED', 'DISPATCHED') LIMIT 1) q
     LEFT JOIN LATERAL (SELECT a.run FROM attempt a
          WHERE q.queue_status = 'DISPATCHED' AND a.item_type = q.item_type
            AND a.item_id = q.item_id AND a.run = q.run LIMIT 1) sent ON true
     WHERE b.item_type = $3 AND b.bulk_id = $4 AND sent.run IS NULL",
);

/// The index has what is wanted; without a bound on its second part PostgreSQL might not take it.
const WITH_DEADLINE: Sql = Sql::each(
    "SELECT count(*) AS n FROM item_queue q INDEXED BY item_queue_tight
     WHERE q.lane = $1
       AND q.deadline IS NOT NULL AND q.finished_at IS NULL
       AND q.queue_status IN ('READY', 'CLAIMED', 'DISPATCHED')
       AND (q.queue_status <> 'DISPATCHED' OR NOT EXISTS (SELECT 1 FROM attempt a
            WHERE a.item_type = q.item_type AND a.item_id = q.item_id AND a.run = q.run))",
    "SELECT count(*) AS n FROM item_queue q
     LEFT JOIN LATERAL (SELECT a.run FROM attempt a
          WHERE q.queue_status = 'DISPATCHED' AND a.item_type = q.item_type
            AND a.item_id = q.item_id AND a.run = q.run LIMIT 1) sent ON true
     WHERE q.lane = $1 AND q.deadline - q.scheduled_exec_time < 9223372036854775807
       AND q.deadline IS NOT NULL AND q.queue_part = 'O' AND sent.run IS NULL",
);

struct UnsentQuery {
    lane: LaneName,
    item_types: Vec<ItemType>,
    near: u32,
    margin: Decimal,
}

impl UnsentQuery {
    async fn unsent(&self, tx: &Tx) -> StoreResult<Option<UnsentOnLane>> {
        const LAST: &str = "SELECT last_turn FROM lane_cursor WHERE lane = $1";
        let Some(lane) = tx.lane(&self.lane).await else {
            return Ok(None);
        };
        let now = tx.now().await?;
        let last = tx.row(LAST, params![&self.lane]).await;
        let last_turn: Option<Option<Timestamp>> =
            last.map(|row| row.get("last_turn")).transpose()?;
        // Before what is under way: what is claimed in between is seen twice rather than not at all.
        let mut near = self.ready(tx).await?;
        let far = match cut_near(&mut near, self.near) {
            Some(from) => Some(self.far(tx, &lane, from, now).await?),
            None => None,
        };
        near.extend(self.under_way(tx).await?);
        Ok(Some(UnsentOnLane {
            now,
            last_turn: last_turn.flatten(),
            lane,
            near,
            far,
        }))
    }

    async fn ready(&self, tx: &Tx) -> StoreResult<Vec<Unsent>> {
        const READY: Sql = Sql::each(
            "SELECT item_type, scheduled_exec_time, hold_after, 1 AS is_ready
             FROM item_queue
             WHERE lane = $1 AND item_type = $2 AND queue_status = 'READY'
             ORDER BY scheduled_exec_time LIMIT $3",
            "SELECT item_type, scheduled_exec_time, hold_after, 1 AS is_ready
             FROM item_queue
             WHERE lane = $1 AND item_type = $2 AND queue_part = 'O' AND queue_status = 'READY'
             ORDER BY scheduled_exec_time LIMIT $3",
        );
        let most = i64::from(self.near) + 1;
        let mut ready = vec![];
        for item_type in &self.item_types {
            let rows = tx.rows(READY, params![&self.lane, item_type, most]).await;
            for row in &rows {
                ready.push(unsent_from(row)?);
            }
        }
        Ok(ready)
    }

    /// The indexes, and on PostgreSQL the batches, hold only what is under way, so that reading all of one costs little.
    async fn under_way(&self, tx: &Tx) -> StoreResult<Vec<Unsent>> {
        const UNDER_WAY: Sql = Sql::each(
            "SELECT item_type, scheduled_exec_time, hold_after, 0 AS is_ready
             FROM item_queue INDEXED BY item_queue_claimed
             WHERE lane = $1 AND queue_status = 'CLAIMED'
             UNION ALL
             SELECT q.item_type, q.scheduled_exec_time, q.hold_after, 0
             FROM item_queue q INDEXED BY item_queue_running
             WHERE q.lane = $1 AND q.queue_status = 'DISPATCHED' AND q.finished_at IS NULL
               AND NOT EXISTS (SELECT 1 FROM attempt a
                    WHERE a.item_type = q.item_type AND a.item_id = q.item_id AND a.run = q.run)",
            "SELECT q.item_type, q.scheduled_exec_time, q.hold_after, 0 AS is_ready
             FROM under_way q
             LEFT JOIN LATERAL (SELECT a.run FROM attempt a
                  WHERE q.queue_status = 'DISPATCHED' AND a.item_type = q.item_type
                    AND a.item_id = q.item_id AND a.run = q.run LIMIT 1) sent ON true
             WHERE q.lane = $1 AND sent.run IS NULL",
        );
        let rows = tx.rows(UNDER_WAY, params![&self.lane]).await;
        rows.iter().map(unsent_from).collect()
    }

    /// On PostgreSQL what waits is what is open without what is under way: the former is counted in its index alone.
    async fn far(
        &self,
        tx: &Tx,
        lane: &LaneInForce,
        from: Timestamp,
        now: Timestamp,
    ) -> StoreResult<Far> {
        const COUNT: Sql = Sql::each(
            "SELECT count(*) AS n FROM item_queue
             WHERE lane = $1 AND item_type = $2 AND queue_status = 'READY'
               AND scheduled_exec_time >= $3 AND scheduled_exec_time < $4",
            "SELECT (SELECT count(*) FROM item_queue
                     WHERE lane = $1 AND item_type = $2 AND queue_part = 'O'
                       AND scheduled_exec_time >= $3 AND scheduled_exec_time < $4)
                  - (SELECT count(*) FROM under_way
                     WHERE lane = $1 AND item_type = $2
                       AND scheduled_exec_time >= $3 AND scheduled_exec_time < $4) AS n",
        );
        const WINDOWS: &str = "SELECT window_start, used FROM lane_window
             WHERE lane = $1 AND window_start >= $2 AND used > 0
               AND generation = (SELECT generation FROM lane_plan WHERE lane = $1)
             ORDER BY window_start";
        let plan = lane.windows(self.margin);
        let windows_from = plan.end_of(plan.start_of(from.max(now)));
        let mut count = 0;
        for item_type in &self.item_types {
            let range = params![&self.lane, item_type, from, windows_from];
            count += tx.one(COUNT, range).await?.get::<u64>("n")?;
        }
        let window = |row: &Row| {
            Ok(WindowUse {
                start: row.get("window_start")?,
                used: row.get("used")?,
            })
        };
        let windows = tx.rows(WINDOWS, params![&self.lane, windows_from]).await;
        Ok(Far {
            from,
            count,
            windows_from,
            windows: windows.iter().map(window).collect::<StoreResult<_>>()?,
        })
    }
}

fn bounded(slack: SignedDuration) -> i64 {
    i64::try_from(slack.as_micros()).unwrap_or(i64::MAX)
}

fn tight_from(row: &Row) -> StoreResult<Tight> {
    Ok(Tight {
        currency: row.get("currency")?,
        amount_minor: row.get("amount_minor")?,
        due: row.get("scheduled_exec_time")?,
        deadline: row.get("deadline")?,
        item_type: row.get("item_type")?,
    })
}

fn unsent_from(row: &Row) -> StoreResult<Unsent> {
    Ok(Unsent {
        item_type: row.get("item_type")?,
        due: row.get("scheduled_exec_time")?,
        hold_after: row.get("hold_after")?,
        is_ready: row.get("is_ready")?,
    })
}
