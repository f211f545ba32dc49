//! Lanes: their versions, their locks and their windows.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use tollgate_core::Timestamp;
use tollgate_core::calendar::CalendarText;
use tollgate_core::certificate::Certificate;
use tollgate_core::gate::HORIZON;
use tollgate_core::id::{CalendarName, LaneName};
use tollgate_core::lane::{Lane, LaneChange};
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::{
    Author, CalendarInForce, Lanes, SettingKind, StoreError, StoreResult, WindowUse,
};

use super::accounts::audit;
use super::certificate::certify;
use super::run::{all, execute, now as run_now};
use super::value::{Count, Us, storable};
use super::{PostgresStore, calendars, settings, storms};
use crate::audit::Entry;
use crate::urgency::Urgency;
use crate::value::micros;

#[async_trait]
impl Lanes for PostgresStore {
    async fn lane(&self, name: &LaneName) -> StoreResult<Option<LaneInForce>> {
        let name = name.clone();
        self.runner
            .autocommit(Urgency::Urgent, move |c| {
                Box::pin(async move { lane(c, &name).await })
            })
            .await
    }

    async fn lanes(&self) -> StoreResult<Vec<LaneInForce>> {
        self.runner
            .autocommit(Urgency::Normal, |c| {
                Box::pin(async move { in_force(c, None).await })
            })
            .await
    }

    async fn change_lane(
        &self,
        name: &LaneName,
        change: LaneChange,
        author: Author,
    ) -> StoreResult<LaneInForce> {
        let name = name.clone();
        self.runner
            .in_transaction(Urgency::Urgent, move |tx| {
                Box::pin(async move { change_lane(tx, name, change, author).await })
            })
            .await
    }

    async fn close_lane(&self, name: &LaneName, time: Duration, author: Author) -> StoreResult<()> {
        let name = name.clone();
        self.runner
            .in_transaction(Urgency::Urgent, move |tx| {
                Box::pin(async move {
                    close_for(tx, &name, time, Some(&author)).await?;
                    let detail = format!("lane {name} for {time:?}: {}", author.reason);
                    let entry = Entry {
                        action: "LANE_CLOSED",
                        actor: &author.actor,
                        detail: &detail,
                        ..Entry::default()
                    };
                    audit(tx, &entry).await
                })
            })
            .await
    }

    async fn calendars(&self) -> StoreResult<Vec<CalendarInForce>> {
        self.runner
            .autocommit(Urgency::Normal, |c| {
                Box::pin(async move { calendars::in_force(c).await })
            })
            .await
    }

    async fn put_calendar(
        &self,
        name: &CalendarName,
        text: CalendarText,
        author: Author,
    ) -> StoreResult<CalendarInForce> {
        let name = name.clone();
        self.runner
            .in_transaction(Urgency::Urgent, move |tx| {
                Box::pin(async move { calendars::put(tx, name, text, author).await })
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
        let name = name.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let limit = i64::from(limit);
                    let rows = all(c, WINDOWS, &[&name.as_str(), &Us(from), &limit]).await?;
                    let window = |row: &Row| WindowUse {
                        start: row.get::<_, Us>(0).0,
                        used: row.get::<_, Count>(1).0,
                    };
                    Ok(rows.iter().map(window).collect())
                })
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
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { certify(tx, &name, from, to).await })
            })
            .await
    }
}

async fn change_lane(
    tx: &Transaction<'_>,
    name: LaneName,
    change: LaneChange,
    author: Author,
) -> StoreResult<LaneInForce> {
    settings::lock(tx, SettingKind::Lane, name.as_str()).await?;
    let before = lane(tx, &name).await?.map(|lane| lane.lane);
    if change.pause == Some(None) {
        storms::lift(tx, &name).await?;
    }
    let ordered = change.ordered_at(run_now(tx).await?.0);
    let changed = Lane::changed(before.as_ref(), ordered)
        .map_err(|why| StoreError::Invalid(format!("lane \"{name}\": {why}")))?;
    if let Some(calendar) = &changed.calendar {
        calendars::must_exist(tx, calendar).await?;
    }
    let body = serde_json::to_string(&changed).map_err(|e| StoreError::Bug(e.to_string()))?;
    let setting = settings::put(tx, SettingKind::Lane, name.as_str(), body, author).await?;
    let size = changed.window_size();
    let now = Us(setting.created_at);
    match before
        .map(|lane| lane.window_size())
        .filter(|old| *old != size)
    {
        Some(old_size) => rebuild_windows(tx, &name, old_size, size, now).await?,
        None => forget_pointers(tx, &name, size, now).await?,
    }
    let changed = lane(tx, &name).await?;
    changed.ok_or_else(|| StoreError::Bug(format!("lane \"{name}\" is not there after its change")))
}

/// Holds a lane's plan and its cursor, in this order; creates them with the lane.
pub(super) async fn lock(tx: &Transaction<'_>, name: &LaneName) -> StoreResult<()> {
    const STATEMENTS: [&str; 4] = [
        "INSERT INTO lane_plan (lane) VALUES ($1) ON CONFLICT (lane) DO NOTHING",
        "SELECT lane FROM lane_plan WHERE lane = $1 FOR UPDATE",
        "INSERT INTO lane_cursor (lane) VALUES ($1) ON CONFLICT (lane) DO NOTHING",
        "SELECT lane FROM lane_cursor WHERE lane = $1 FOR UPDATE",
    ];
    for statement in STATEMENTS {
        execute(tx, statement, &[&name.as_str()]).await?;
    }
    Ok(())
}

/// The lane in force, inside a transaction that holds its plan or its cursor.
pub(super) async fn lane(
    c: &impl GenericClient,
    name: &LaneName,
) -> StoreResult<Option<LaneInForce>> {
    Ok(in_force(c, Some(name.as_str())).await?.pop())
}

async fn in_force(c: &impl GenericClient, name: Option<&str>) -> StoreResult<Vec<LaneInForce>> {
    const IN_FORCE: &str = "SELECT s.name, s.version, s.body, s.created_at, c.closed_until,
                c.closed_by, c.closed_why, k.body, st.storm_id, st.reason
         FROM lane_plan p
         CROSS JOIN LATERAL (SELECT name, version, body, created_at FROM setting
              WHERE kind = 'lane' AND name = p.lane ORDER BY version DESC LIMIT 1) s
         LEFT JOIN lane_cursor c ON c.lane = s.name
         LEFT JOIN storm st ON st.storm_id = c.storm_id
         LEFT JOIN LATERAL (SELECT body FROM setting
              WHERE kind = 'calendar' AND name = s.body::json ->> 'calendar'
              ORDER BY version DESC LIMIT 1) k ON true
         WHERE $1::text IS NULL OR p.lane = $1
         ORDER BY s.name";
    let rows = all(c, IN_FORCE, &[&name]).await?;
    rows.iter().map(lane_from).collect()
}

/// From name, version, body, creation, the closing (until when, by whom, why), the calendar's body and
/// the storm (which, why), in this order.
pub(super) fn lane_from(row: &Row) -> StoreResult<LaneInForce> {
    let author = |by: String| Author::new(by, row.get::<_, Option<String>>(6).unwrap_or_default());
    let calendar = match row.get::<_, Option<&str>>(7) {
        Some(body) => Some(Arc::new(calendars::read(body)?)),
        None => None,
    };
    Ok(LaneInForce {
        name: LaneName::new(row.get::<_, String>(0)),
        version: row.get(1),
        lane: settings::parse(row.get(2))?,
        calendar,
        effective_at: row.get::<_, Us>(3).0 + HORIZON,
        closed_until: row.get::<_, Option<Us>>(4).map(|us| us.0),
        closed_by: row.get::<_, Option<String>>(5).map(author),
        storm: storms::pause_from(row, 8),
    })
}

/// No turn until then: the author wants it, or the downstream asked for quiet. A shorter wish never shortens
/// a longer one.
pub(super) async fn close_for(
    tx: &Transaction<'_>,
    name: &LaneName,
    time: Duration,
    author: Option<&Author>,
) -> StoreResult<()> {
    const CLOSE: &str = "INSERT INTO lane_cursor (lane, closed_until, closed_by, closed_why)
         VALUES ($1, tg_now() + $2, $3, $4)
         ON CONFLICT (lane) DO UPDATE
         SET closed_until = excluded.closed_until, closed_by = excluded.closed_by,
             closed_why = excluded.closed_why
         WHERE coalesce(lane_cursor.closed_until, 0) < excluded.closed_until";
    let by = author.map(|author| author.actor.as_str());
    let why = author.map(|author| storable(&author.reason));
    execute(
        tx,
        CLOSE,
        &[&name.as_str(), &micros(time), &by, &why.as_deref()],
    )
    .await
    .map(drop)
}

/// Room may have come back anywhere from now on. No slot is given in a window that has ended.
pub(super) async fn forget_pointers(
    tx: &Transaction<'_>,
    name: &LaneName,
    size: Duration,
    now: Us,
) -> StoreResult<()> {
    const FORGET: &str = "UPDATE lane_window SET next_open = NULL
         WHERE lane = $1 AND window_start > $2 AND next_open IS NOT NULL
           AND generation = (SELECT generation FROM lane_plan WHERE lane = $1)";
    let ended = now.micros() - micros(size);
    execute(tx, FORGET, &[&name.as_str(), &ended])
        .await
        .map(drop)
}

/// Future slots keep their times; their windows and counters follow the new size, and none of
/// them points onward. The window of the old size that reaches into the future is counted anew with what is left in it.
async fn rebuild_windows(
    tx: &Transaction<'_>,
    name: &LaneName,
    old_size: Duration,
    size: Duration,
    now: Us,
) -> StoreResult<()> {
    const MOVE: &str = "UPDATE slot SET window_start = scheduled_time - (scheduled_time % $2)
         WHERE lane = $1 AND scheduled_time >= $3";
    const CLEAR: &str = "DELETE FROM lane_window WHERE lane = $1 AND window_start > $2
           AND generation = (SELECT generation FROM lane_plan WHERE lane = $1)";
    const COUNT: &str = "INSERT INTO lane_window (lane, generation, window_start, used)
         SELECT s.lane, s.generation, s.window_start, count(*)
         FROM lane_plan p
         JOIN slot s ON s.lane = p.lane AND s.generation = p.generation
         JOIN item_queue q ON q.item_type = s.item_type AND q.item_id = s.item_id
         WHERE p.lane = $1 AND s.window_start > $2 AND q.queue_status NOT IN ('CANCELLED', 'DEAD')
         GROUP BY s.lane, s.generation, s.window_start";
    let (lane, size) = (name.as_str(), micros(size));
    let from = now.micros() - now.micros().rem_euclid(size);
    let ended = from - micros(old_size);
    execute(tx, MOVE, &[&lane, &size, &from]).await?;
    execute(tx, CLEAR, &[&lane, &ended]).await?;
    execute(tx, COUNT, &[&lane, &ended]).await.map(drop)
}
