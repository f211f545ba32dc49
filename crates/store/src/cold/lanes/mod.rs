//! Lanes: their versions, their locks and their windows. How the hot path reads the lane in force
//! is each database's own (`sqlite::lanes`, `postgres::lanes`), and is asked for here.

pub(crate) mod calendars;
mod certificate;
mod storms;
mod timetables;

use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::Timestamp;
use tollgate_core::calendar::CalendarText;
use tollgate_core::certificate::Certificate;
use tollgate_core::id::{CalendarName, LaneName};
use tollgate_core::lane::{Lane, LaneChange};
use tollgate_core::lane_in_force::{LaneInForce, no_such_lane};
use tollgate_core::ports::{
    Author, CalendarInForce, Lanes, SettingKind, StoreError, StoreResult, WindowUse,
};

use super::audit::audit;
use super::settings;
use crate::audit::Entry;
use crate::sql::{Row, Sql, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;
use crate::value::micros;

#[async_trait]
impl<D: Database> Lanes for StoreOn<D> {
    async fn lane(&self, name: &LaneName) -> StoreResult<Option<LaneInForce>> {
        let name = name.clone();
        self.read_urgently(move |tx| async move { Ok(tx.lane(&name).await) })
            .await
    }

    async fn lanes(&self) -> StoreResult<Vec<LaneInForce>> {
        self.read(move |tx| async move { Ok(tx.lanes().await) })
            .await
    }

    async fn change_lane(
        &self,
        name: &LaneName,
        change: LaneChange,
        author: Author,
    ) -> StoreResult<LaneInForce> {
        let name = name.clone();
        self.write(Urgency::Urgent, move |tx| async move {
            change_lane(&tx, &name, change, author).await
        })
        .await
    }

    async fn adjust_lane(
        &self,
        name: &LaneName,
        version: i64,
        change: LaneChange,
        author: Author,
    ) -> StoreResult<Option<(LaneInForce, i64)>> {
        let name = name.clone();
        self.write(Urgency::Urgent, move |tx| async move {
            settings::lock(&tx, SettingKind::Lane, name.as_str()).await;
            let before = tx.lane(&name).await;
            let before = before.ok_or_else(|| StoreError::Invalid(no_such_lane(&name)))?;
            if before.version != version {
                return Ok(None);
            }
            let lane = change_lane(&tx, &name, change, author.clone()).await?;
            let generation = begin_replan(&tx, &lane, &author).await?;
            Ok(Some((lane, generation)))
        })
        .await
    }

    async fn close_lane(&self, name: &LaneName, time: Duration, author: Author) -> StoreResult<()> {
        let name = name.clone();
        self.write(Urgency::Urgent, move |tx| async move {
            close_for(&tx, &name, time, Some(&author)).await;
            let detail = format!("lane {name} for {time:?}: {}", author.reason);
            let entry = Entry {
                action: "LANE_CLOSED",
                actor: &author.actor,
                detail: &detail,
                ..Entry::default()
            };
            audit(&tx, &entry).await;
            Ok(())
        })
        .await
    }

    async fn calendars(&self) -> StoreResult<Vec<CalendarInForce>> {
        self.read(move |tx| async move { calendars::in_force(&tx).await })
            .await
    }

    async fn put_calendar(
        &self,
        name: &CalendarName,
        text: CalendarText,
        author: Author,
    ) -> StoreResult<CalendarInForce> {
        let name = name.clone();
        self.write(Urgency::Urgent, move |tx| async move {
            calendars::put(&tx, name, text, author).await
        })
        .await
    }

    async fn windows(
        &self,
        name: &LaneName,
        from: Timestamp,
        limit: u32,
    ) -> StoreResult<Vec<WindowUse>> {
        const WINDOWS: &str = "SELECT window_start, used FROM lane_window
             WHERE lane = $1 AND window_start >= $2 AND used > 0
               AND generation = (SELECT generation FROM lane_plan WHERE lane = $1)
             ORDER BY window_start LIMIT $3";
        let wanted = params![name, from, limit];
        self.read(move |tx| async move {
            let rows = tx.rows(WINDOWS, wanted).await;
            let window = |row: &Row| {
                Ok(WindowUse {
                    start: row.get("window_start")?,
                    used: row.get("used")?,
                })
            };
            rows.iter().map(window).collect()
        })
        .await
    }

    async fn certificate(
        &self,
        name: &LaneName,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<Certificate> {
        let name = name.clone();
        // Between two statements items may move into the archive, with their turns.
        self.read_snapshot(
            move |tx| async move { certificate::certify(&tx, &name, from, to).await },
        )
        .await
    }
}

async fn change_lane(
    tx: &Tx,
    name: &LaneName,
    change: LaneChange,
    author: Author,
) -> StoreResult<LaneInForce> {
    settings::lock(tx, SettingKind::Lane, name.as_str()).await;
    let before = tx.lane(name).await.map(|lane| lane.lane);
    if change.pause == Some(None) {
        storms::lift(tx, name).await?;
    }
    let ordered = change.ordered_at(tx.now().await?);
    let changed = Lane::changed(before.as_ref(), ordered)
        .map_err(|why| StoreError::Invalid(format!("lane \"{name}\": {why}")))?;
    if let Some(calendar) = &changed.calendar {
        calendars::must_exist(tx, calendar).await?;
    }
    let body = serde_json::to_string(&changed).map_err(|e| StoreError::Bug(e.to_string()))?;
    let setting = settings::put(tx, SettingKind::Lane, name.as_str(), body, author).await?;
    let (size, now) = (changed.window_size(), setting.created_at);
    let old_size = before.map(|lane| lane.window_size());
    match old_size.filter(|old_size| *old_size != size) {
        Some(old_size) => rebuild_windows(tx, name, old_size, size, now).await,
        None => forget_pointers(tx, name, now).await,
    }
    let gone = || StoreError::Bug(format!("lane \"{name}\" is not there after its change"));
    tx.lane(name).await.ok_or_else(gone)
}

/// Opens a generation as `Plans::begin_replan` does. Its first step adopts what is under way.
async fn begin_replan(tx: &Tx, lane: &LaneInForce, author: &Author) -> StoreResult<i64> {
    const NEXT: &str = "UPDATE lane_plan SET generation = generation + 1, replan_since = tg_now()
         WHERE lane = $1 RETURNING generation";
    // What this window has sent already has used its room.
    const SENT: &str = "INSERT INTO lane_window (lane, generation, window_start, used)
         SELECT $1, $2, $3, count(*) FROM attempt
         WHERE lane = $1 AND turn_at >= $3 AND turn_at < $4 HAVING count(*) > 0";
    let name = &lane.name;
    let next = tx.row(NEXT, params![name]).await;
    let next = next.ok_or_else(|| StoreError::Invalid(no_such_lane(name)))?;
    let generation: i64 = next.get("generation")?;
    let (now, size) = (
        tx.now().await?.as_microsecond(),
        micros(lane.lane.window_size()),
    );
    let window = now - now.rem_euclid(size);
    tx.execute(SENT, params![name, generation, window, window + size])
        .await;
    let detail = format!("lane {name}, generation {generation}: {}", author.reason);
    let entry = Entry {
        action: "REPLAN_BEGUN",
        actor: &author.actor,
        detail: &detail,
        ..Entry::default()
    };
    audit(tx, &entry).await;
    Ok(generation)
}

/// Holds a lane's plan and its cursor, in this order; creates them with the lane.
pub(super) async fn lock(tx: &Tx, name: &str) {
    const PLAN: &str = "INSERT INTO lane_plan (lane, generation) VALUES ($1, 0)
         ON CONFLICT (lane) DO NOTHING";
    const CURSOR: &str = "INSERT INTO lane_cursor (lane) VALUES ($1) ON CONFLICT (lane) DO NOTHING";
    const HELD_PLAN: &str = "SELECT lane FROM lane_plan WHERE lane = $1";
    const HELD_CURSOR: &str = "SELECT lane FROM lane_cursor WHERE lane = $1";
    for (create, hold) in [(PLAN, HELD_PLAN), (CURSOR, HELD_CURSOR)] {
        tx.execute(create, params![name]).await;
        tx.locked_row(hold, params![name]).await;
    }
}

/// No turn until then: the author wants it, or the downstream asked for quiet. A shorter wish never shortens
/// a longer one.
pub(crate) async fn close_for(tx: &Tx, name: &LaneName, time: Duration, author: Option<&Author>) {
    const CLOSE: &str = "INSERT INTO lane_cursor (lane, closed_until, closed_by, closed_why)
         VALUES ($1, tg_now() + $2, $3, $4)
         ON CONFLICT (lane) DO UPDATE
         SET closed_until = excluded.closed_until, closed_by = excluded.closed_by,
             closed_why = excluded.closed_why
         WHERE coalesce(lane_cursor.closed_until, 0) < excluded.closed_until";
    let by = author.map(|author| &author.actor);
    let why = author.map(|author| &author.reason);
    tx.execute(CLOSE, params![name, micros(time), by, why])
        .await;
}

/// Room may have come back anywhere from now on. No slot is given in a window that has ended.
pub(crate) async fn forget_pointers(tx: &Tx, name: &LaneName, now: Timestamp) {
    const FORGET: &str = "UPDATE lane_window SET next_open = NULL
         WHERE lane = $1 AND window_start > $2 AND next_open IS NOT NULL
           AND generation = (SELECT generation FROM lane_plan WHERE lane = $1)";
    if let Some(lane) = tx.lane(name).await {
        let ended = now.as_microsecond() - micros(lane.lane.window_size());
        tx.execute(FORGET, params![name, ended]).await;
    }
}

/// Future slots keep their times; their windows and counters follow the new size, and none of
/// them points onward. The window of the old size that reaches into the future is counted anew with what is left in it.
async fn rebuild_windows(
    tx: &Tx,
    name: &LaneName,
    old_size: Duration,
    size: Duration,
    now: Timestamp,
) {
    // PostgreSQL locks them in the order of their keys, as everywhere.
    const MOVE: Sql = Sql::each(
        "UPDATE item_queue SET window_start = scheduled_time - (scheduled_time % $2)
         WHERE lane = $1 AND scheduled_time >= $3",
        "WITH ahead AS MATERIALIZED (
             SELECT item_type, item_id FROM item_queue WHERE lane = $1 AND scheduled_time >= $3
             ORDER BY item_type, item_id FOR UPDATE
         )
         UPDATE item_queue q SET window_start = q.scheduled_time - (q.scheduled_time % $2)
         FROM ahead WHERE q.item_type = ahead.item_type AND q.item_id = ahead.item_id",
    );
    const CLEAR: &str = "DELETE FROM lane_window WHERE lane = $1 AND window_start > $2
           AND generation = (SELECT generation FROM lane_plan WHERE lane = $1)";
    const COUNT: &str = "INSERT INTO lane_window (lane, generation, window_start, used)
         SELECT q.lane, q.generation, q.window_start, count(*)
         FROM lane_plan p
         JOIN item_queue q ON q.lane = p.lane AND q.generation = p.generation
         WHERE p.lane = $1 AND q.window_start > $2 AND q.queue_status NOT IN ('CANCELLED', 'DEAD')
         GROUP BY q.lane, q.generation, q.window_start";
    let (now, size) = (now.as_microsecond(), micros(size));
    let from = now - now.rem_euclid(size);
    let ended = from - micros(old_size);
    tx.execute(MOVE, params![name, size, from]).await;
    tx.execute(CLEAR, params![name, ended]).await;
    tx.execute(COUNT, params![name, ended]).await;
}
