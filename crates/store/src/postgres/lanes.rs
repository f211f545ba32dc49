//! Lanes: their versions, their locks and their windows.

use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use tollgate_core::Timestamp;
use tollgate_core::certificate::Certificate;
use tollgate_core::gate::HORIZON;
use tollgate_core::id::LaneName;
use tollgate_core::lane::{Lane, LaneChange};
use tollgate_core::ports::{
    Author, LaneVersion, Lanes, SettingKind, StoreError, StoreResult, WindowUse,
};

use super::certificate::certify;
use super::run::{Urgency, all, execute};
use super::value::{Count, Us, micros, until};
use super::{PostgresStore, settings};

#[async_trait]
impl Lanes for PostgresStore {
    async fn lane(&self, name: &LaneName) -> StoreResult<Option<LaneVersion>> {
        let name = name.clone();
        self.runner
            .read(Urgency::Urgent, move |c| {
                Box::pin(async move { Ok(versions(c, Some(name.as_str())).await?.pop()) })
            })
            .await
    }

    async fn lanes(&self) -> StoreResult<Vec<LaneVersion>> {
        self.runner
            .read(Urgency::Normal, |c| {
                Box::pin(async move { versions(c, None).await })
            })
            .await
    }

    async fn change_lane(
        &self,
        name: &LaneName,
        change: LaneChange,
        author: Author,
    ) -> StoreResult<LaneVersion> {
        let name = name.clone();
        self.runner
            .write(Urgency::Urgent, move |tx| {
                Box::pin(async move { change_lane(tx, name, change, author).await })
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
             WHERE lane = $1 AND window_start >= $2 ORDER BY window_start LIMIT $3";
        let name = name.clone();
        self.runner
            .read(Urgency::Normal, move |c| {
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
            .write(Urgency::Normal, move |tx| {
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
) -> StoreResult<LaneVersion> {
    settings::lock(tx, SettingKind::Lane, name.as_str()).await?;
    let current = settings::current(tx, SettingKind::Lane, name.as_str()).await?;
    let current = current.map(|s| parse(&s.body_json)).transpose()?;
    let changed = Lane::changed(current.as_ref(), change)
        .map_err(|why| StoreError::Invalid(format!("lane \"{name}\": {why}")))?;
    let body = serde_json::to_string(&changed).map_err(|e| StoreError::Bug(e.to_string()))?;
    let setting = settings::put(tx, SettingKind::Lane, name.as_str(), body, author).await?;
    let (old_size, size) = (
        current.as_ref().map(Lane::window_size),
        changed.window_size(),
    );
    let now = Us(setting.created_at);
    match old_size.filter(|old| *old != size) {
        Some(old_size) => rebuild_windows(tx, &name, old_size, size, now).await?,
        None => forget_pointers(tx, &name, size, now).await?,
    }
    let version = versions(tx, Some(name.as_str())).await?.pop();
    version.ok_or_else(|| StoreError::Bug(format!("lane \"{name}\" is not there after its change")))
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
pub(super) async fn lane(c: &impl GenericClient, name: &LaneName) -> StoreResult<Option<Lane>> {
    let setting = settings::current(c, SettingKind::Lane, name.as_str()).await?;
    setting.map(|s| parse(&s.body_json)).transpose()
}

pub(super) fn parse(body: &str) -> StoreResult<Lane> {
    serde_json::from_str(body).map_err(|e| StoreError::Bug(format!("a lane's setting: {e}")))
}

async fn versions(c: &impl GenericClient, name: Option<&str>) -> StoreResult<Vec<LaneVersion>> {
    const IN_FORCE: &str = "SELECT s.name, s.version, s.body, s.created_at, c.closed_until,
                (SELECT tg_now())
         FROM lane_plan p
         CROSS JOIN LATERAL (SELECT name, version, body, created_at FROM setting
              WHERE kind = 'lane' AND name = p.lane ORDER BY version DESC LIMIT 1) s
         LEFT JOIN lane_cursor c ON c.lane = s.name
         WHERE $1::text IS NULL OR p.lane = $1
         ORDER BY s.name";
    let rows = all(c, IN_FORCE, &[&name]).await?;
    rows.iter().map(version_from).collect()
}

fn version_from(row: &Row) -> StoreResult<LaneVersion> {
    let now: i64 = row.get(5);
    Ok(LaneVersion {
        name: LaneName::new(row.get::<_, String>(0)),
        version: row.get(1),
        lane: parse(row.get(2))?,
        effective_at: row.get::<_, Us>(3).0 + HORIZON,
        closed_for: row
            .get::<_, Option<i64>>(4)
            .map(|then| until(now, then))
            .filter(|left| !left.is_zero()),
    })
}

/// The downstream asked for quiet: no turn until then. A shorter wish never shortens a longer one.
pub(super) async fn close_for(
    tx: &Transaction<'_>,
    name: &LaneName,
    time: Duration,
) -> StoreResult<()> {
    const CLOSE: &str = "INSERT INTO lane_cursor (lane, closed_until) VALUES ($1, tg_now() + $2)
         ON CONFLICT (lane) DO UPDATE
         SET closed_until = greatest(lane_cursor.closed_until, excluded.closed_until)";
    execute(tx, CLOSE, &[&name.as_str(), &micros(time)])
        .await
        .map(drop)
}

/// Room may have come back anywhere from now on. No slot is given in a window that has ended.
async fn forget_pointers(
    tx: &Transaction<'_>,
    name: &LaneName,
    size: Duration,
    now: Us,
) -> StoreResult<()> {
    const FORGET: &str = "UPDATE lane_window SET next_open = NULL
         WHERE lane = $1 AND window_start > $2 AND next_open IS NOT NULL";
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
    const CLEAR: &str = "DELETE FROM lane_window WHERE lane = $1 AND window_start > $2";
    const COUNT: &str = "INSERT INTO lane_window (lane, window_start, used)
         SELECT lane, window_start, count(*) FROM slot
         WHERE lane = $1 AND window_start > $2 GROUP BY lane, window_start";
    let (lane, size) = (name.as_str(), micros(size));
    let from = now.micros() - now.micros().rem_euclid(size);
    let ended = from - micros(old_size);
    execute(tx, MOVE, &[&lane, &size, &from]).await?;
    execute(tx, CLEAR, &[&lane, &ended]).await?;
    execute(tx, COUNT, &[&lane, &ended]).await.map(drop)
}
