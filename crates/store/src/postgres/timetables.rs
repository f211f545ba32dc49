//! What a timetable is made from.

use async_trait::async_trait;
use deadpool_postgres::GenericClient;
use rust_decimal::Decimal;
use tokio_postgres::Row;
use tollgate_core::id::{ItemType, LaneName};
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::{
    Far, StoreResult, Tight, Timetables, Unsent, UnsentOnLane, WindowUse, cut_near,
};
use tollgate_core::timetable::SentOnSlot;
use tollgate_core::{SignedDuration, Timestamp};

use super::run::{all, now, one, optional};
use super::value::{Count, Us};
use super::{PostgresStore, lanes};
use crate::urgency::Urgency;

#[async_trait]
impl Timetables for PostgresStore {
    async fn unsent(
        &self,
        lane: &LaneName,
        item_types: &[ItemType],
        near: u32,
    ) -> StoreResult<Option<UnsentOnLane>> {
        let asked = Asked {
            lane: lane.clone(),
            item_types: item_types.iter().map(ToString::to_string).collect(),
            near,
            margin: self.gate_margin,
        };
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { asked.unsent(c).await })
            })
            .await
    }

    async fn sent_on_slots(&self, lane: &LaneName, limit: u32) -> StoreResult<Vec<SentOnSlot>> {
        /// Some more are looked at than are wanted, and each is looked up by its keys.
        const SENT: &str = "WITH log AS MATERIALIZED (
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
             ORDER BY log.turn_at DESC LIMIT $2::bigint";
        let (lane, limit) = (lane.clone(), i64::from(limit));
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let rows = all(c, SENT, &[&lane.as_str(), &limit]).await?;
                    let sent = |row: &Row| SentOnSlot {
                        slot: row.get::<_, Us>(0).0,
                        claimed_at: row.get::<_, Us>(1).0,
                        turn: row.get::<_, Us>(2).0,
                        before: row.get::<_, Option<Us>>(3).map(|us| us.0),
                    };
                    Ok(rows.iter().map(sent).collect())
                })
            })
            .await
    }

    async fn tight(&self, lane: &LaneName, slack: SignedDuration) -> StoreResult<Vec<Tight>> {
        const TIGHT: &str =
            "SELECT q.scheduled_exec_time, q.deadline, q.item_type FROM item_queue q
             LEFT JOIN LATERAL (SELECT a.run FROM attempt a
                  WHERE q.queue_status = 'DISPATCHED' AND a.item_type = q.item_type
                    AND a.item_id = q.item_id AND a.run = q.run LIMIT 1) sent ON true
             WHERE q.lane = $1 AND q.deadline - q.scheduled_exec_time < $2
               AND q.deadline IS NOT NULL AND q.finished_at IS NULL
               AND q.queue_status IN ('READY', 'CLAIMED', 'DISPATCHED') AND sent.run IS NULL";
        let lane = lane.clone();
        let slack = i64::try_from(slack.as_micros()).unwrap_or(i64::MAX);
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let rows = all(c, TIGHT, &[&lane.as_str(), &slack]).await?;
                    let tight = |row: &Row| Tight {
                        due: row.get::<_, Us>(0).0,
                        deadline: row.get::<_, Us>(1).0,
                        item_type: ItemType::new(row.get::<_, String>(2)),
                    };
                    Ok(rows.iter().map(tight).collect())
                })
            })
            .await
    }

    async fn with_deadline(&self, lane: &LaneName) -> StoreResult<u64> {
        /// The index has what is wanted; without a bound on its second part it might not be taken.
        const COUNT: &str = "SELECT count(*) FROM item_queue q
             LEFT JOIN LATERAL (SELECT a.run FROM attempt a
                  WHERE q.queue_status = 'DISPATCHED' AND a.item_type = q.item_type
                    AND a.item_id = q.item_id AND a.run = q.run LIMIT 1) sent ON true
             WHERE q.lane = $1 AND q.deadline - q.scheduled_exec_time < 9223372036854775807
               AND q.deadline IS NOT NULL AND q.finished_at IS NULL
               AND q.queue_status IN ('READY', 'CLAIMED', 'DISPATCHED') AND sent.run IS NULL";
        let lane = lane.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let row = one(c, COUNT, &[&lane.as_str()]).await?;
                    Ok(row.get::<_, i64>(0).unsigned_abs())
                })
            })
            .await
    }
}

struct Asked {
    lane: LaneName,
    item_types: Vec<String>,
    near: u32,
    margin: Decimal,
}

impl Asked {
    async fn unsent(&self, c: &impl GenericClient) -> StoreResult<Option<UnsentOnLane>> {
        const LAST: &str = "SELECT last_turn FROM lane_cursor WHERE lane = $1";
        let Some(lane) = lanes::lane(c, &self.lane).await? else {
            return Ok(None);
        };
        let name = self.lane.as_str();
        let now = now(c).await?.0;
        let last = optional(c, LAST, &[&name]).await?;
        // Before what is under way: what is claimed in between is seen twice rather than not at all.
        let mut near = self.ready(c).await?;
        let far = match cut_near(&mut near, self.near) {
            Some(from) => Some(self.far(c, &lane, from, now).await?),
            None => None,
        };
        near.extend(self.under_way(c).await?);
        Ok(Some(UnsentOnLane {
            now,
            last_turn: last
                .and_then(|row| row.get::<_, Option<Us>>(0))
                .map(|us| us.0),
            lane,
            near,
            far,
        }))
    }

    async fn ready(&self, c: &impl GenericClient) -> StoreResult<Vec<Unsent>> {
        const READY: &str = "SELECT kind, due.scheduled_exec_time, due.hold_after, true
             FROM unnest($2::text[]) kind
             CROSS JOIN LATERAL (SELECT scheduled_exec_time, hold_after FROM item_queue
                  WHERE lane = $1 AND item_type = kind AND queue_status = 'READY'
                  ORDER BY scheduled_exec_time LIMIT $3) due";
        let (lane, most) = (self.lane.as_str(), i64::from(self.near) + 1);
        let rows = all(c, READY, &[&lane, &self.item_types, &most]).await?;
        Ok(rows.iter().map(unsent_from).collect())
    }

    /// A lookup for each, since the planner takes the few that are under way for a good part of the table.
    async fn under_way(&self, c: &impl GenericClient) -> StoreResult<Vec<Unsent>> {
        const UNDER_WAY: &str = "SELECT item_type, scheduled_exec_time, hold_after, false
             FROM item_queue WHERE lane = $1 AND queue_status = 'CLAIMED'
             UNION ALL
             SELECT q.item_type, q.scheduled_exec_time, q.hold_after, false FROM item_queue q
             LEFT JOIN LATERAL (SELECT a.run FROM attempt a
                  WHERE a.item_type = q.item_type AND a.item_id = q.item_id AND a.run = q.run
                  LIMIT 1) sent ON true
             WHERE q.lane = $1 AND q.queue_status = 'DISPATCHED' AND q.finished_at IS NULL
               AND sent.run IS NULL";
        let rows = all(c, UNDER_WAY, &[&self.lane.as_str()]).await?;
        Ok(rows.iter().map(unsent_from).collect())
    }

    async fn far(
        &self,
        c: &impl GenericClient,
        lane: &LaneInForce,
        from: Timestamp,
        now: Timestamp,
    ) -> StoreResult<Far> {
        const COUNT: &str = "SELECT coalesce(sum(due.n), 0)::bigint FROM unnest($2::text[]) kind
             CROSS JOIN LATERAL (SELECT count(*) AS n FROM item_queue
                  WHERE lane = $1 AND item_type = kind AND queue_status = 'READY'
                    AND scheduled_exec_time >= $3 AND scheduled_exec_time < $4) due";
        const WINDOWS: &str = "SELECT window_start, used FROM lane_window
             WHERE lane = $1 AND window_start >= $2 AND used > 0
               AND generation = (SELECT generation FROM lane_plan WHERE lane = $1)
             ORDER BY window_start";
        let plan = lane.windows(self.margin);
        let windows_from = plan.end_of(plan.start_of(from.max(now)));
        let name = self.lane.as_str();
        let range = (Us(from), Us(windows_from));
        let count = one(c, COUNT, &[&name, &self.item_types, &range.0, &range.1]).await?;
        let windows = all(c, WINDOWS, &[&name, &range.1]).await?;
        let window = |row: &Row| WindowUse {
            start: row.get::<_, Us>(0).0,
            used: row.get::<_, Count>(1).0,
        };
        Ok(Far {
            from,
            count: count.get::<_, i64>(0).unsigned_abs(),
            windows_from,
            windows: windows.iter().map(window).collect(),
        })
    }
}

fn unsent_from(row: &Row) -> Unsent {
    Unsent {
        item_type: ItemType::new(row.get::<_, String>(0)),
        due: row.get::<_, Us>(1).0,
        hold_after: row.get::<_, Option<Us>>(2).map(|us| us.0),
        is_ready: row.get(3),
    }
}
