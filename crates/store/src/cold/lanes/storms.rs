//! Refusal storms, as people meet them: connectors that are watched, storms and what they refused,
//! and lanes that are resumed. How one begins is in `storms.rs` of each store.

use async_trait::async_trait;
use tollgate_core::Timestamp;
use tollgate_core::id::{AttemptId, Item, ItemType, LaneName, StormId, WatchId};
use tollgate_core::ports::{
    NewWatch, Page, RefusedItem, StoreResult, Storm, Storms, Suspicion, rows_needed,
};
use tollgate_core::storm::{Limits, MOST_SCANNED};

use crate::sql::{Row, Sql, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;

#[async_trait]
impl<D: Database> Storms for StoreOn<D> {
    async fn watch(&self, watch: NewWatch) -> StoreResult<WatchId> {
        self.write(Urgency::Normal, move |tx| async move {
            register(&tx, &watch).await
        })
        .await
    }

    async fn storms(&self, limit: u32) -> StoreResult<Vec<Storm>> {
        self.read(move |tx| async move { storms(&tx, None, limit).await })
            .await
    }

    async fn storm(&self, id: StormId) -> StoreResult<Option<Storm>> {
        self.read(move |tx| async move { Ok(storms(&tx, Some(id), 1).await?.pop()) })
            .await
    }

    async fn refused_in(
        &self,
        id: StormId,
        item_type: &ItemType,
        after: Option<AttemptId>,
        limit: u32,
    ) -> StoreResult<Page<RefusedItem, AttemptId>> {
        let item_type = item_type.clone();
        self.read(move |tx| async move { refused_in(&tx, id, &item_type, after, limit).await })
            .await
    }

    async fn suspicion(&self, item: &Item) -> StoreResult<Suspicion> {
        let item = item.clone();
        self.read(move |tx| async move { suspicion(&tx, &item).await })
            .await
    }
}

async fn register(tx: &Tx, watch: &NewWatch) -> StoreResult<WatchId> {
    const LAST: &str = "SELECT watch_id, digest FROM connector_watch
         WHERE lane = $1 AND connector = $2 ORDER BY watch_id DESC LIMIT 1";
    // Places are an array on PostgreSQL, and JSON on SQLite.
    const INSERT: Sql = Sql::each(
        "INSERT INTO connector_watch
             (lane, connector, digest, canary, streak, passed, places, since)
         VALUES ($1, $2, $3, $4, $5, $6, '[]', 0) RETURNING watch_id",
        "INSERT INTO connector_watch
             (lane, connector, digest, canary, streak, passed, places, since)
         VALUES ($1, $2, $3, $4, $5, $6, '{}', 0) RETURNING watch_id",
    );
    let (lane, connector) = (&watch.lane, &watch.connector);
    tx.lock_name(format!("connector {lane} {connector}")).await;
    if let Some(last) = tx.row(LAST, params![lane, connector]).await
        && last.get::<String>("digest")? == watch.digest
    {
        return Ok(WatchId(last.get("watch_id")?));
    }
    let Limits { canary, streak } = watch.limits;
    let (digest, passed) = (&watch.digest, canary == 0);
    let watched = params![lane, connector, digest, canary, streak, passed];
    Ok(WatchId(tx.one(INSERT, watched).await?.get("watch_id")?))
}

/// A person resumes the lane: its connectors begin with a canary again.
pub(super) async fn lift(tx: &Tx, lane: &LaneName) -> StoreResult<()> {
    const STORM: &str = "SELECT storm_id FROM lane_cursor WHERE lane = $1 AND storm_id IS NOT NULL";
    const END: &str = "UPDATE storm SET lifted_at = tg_now(),
                last_attempt = (SELECT coalesce(max(attempt_id), 0) FROM attempt)
         WHERE storm_id = $1 RETURNING last_attempt";
    const RESUME: &str = "UPDATE lane_cursor SET storm_id = NULL WHERE lane = $1";
    const BEGIN_AGAIN: Sql = Sql::each(
        "UPDATE connector_watch SET passed = (canary = 0), places = '[]', since = $2
         WHERE lane = $1",
        "UPDATE connector_watch SET passed = (canary = 0), places = '{}', since = $2
         WHERE lane = $1",
    );
    let Some(row) = tx.row(STORM, params![lane]).await else {
        return Ok(());
    };
    let storm: i64 = row.get("storm_id")?;
    let last: i64 = tx.one(END, params![storm]).await?.get("last_attempt")?;
    tx.execute(RESUME, params![lane]).await;
    tx.execute(BEGIN_AGAIN, params![lane, last]).await;
    Ok(())
}

async fn storms(tx: &Tx, id: Option<StormId>, limit: u32) -> StoreResult<Vec<Storm>> {
    const STORMS: &str = "SELECT s.storm_id, s.lane, w.connector, s.reason, s.began_at, s.lifted_at
         FROM storm s JOIN connector_watch w ON w.watch_id = s.watch_id
         WHERE CAST($1 AS bigint) IS NULL OR s.storm_id = $1
         ORDER BY s.storm_id DESC LIMIT $2";
    let rows = tx.rows(STORMS, params![id.map(|id| id.0), limit]).await;
    let storm = |row: &Row| {
        Ok(Storm {
            id: StormId(row.get("storm_id")?),
            lane: row.get("lane")?,
            connector: row.get("connector")?,
            reason: row.get("reason")?,
            since: row.get("began_at")?,
            lifted_at: row.get("lifted_at")?,
        })
    };
    rows.iter().map(storm).collect()
}

async fn refused_in(
    tx: &Tx,
    id: StormId,
    item_type: &ItemType,
    after: Option<AttemptId>,
    limit: u32,
) -> StoreResult<Page<RefusedItem, AttemptId>> {
    const REFUSED: Sql = Sql::each(
        "SELECT a.item_id, a.attempt_id, q.amount_minor, q.currency
         FROM storm s
         JOIN attempt a ON a.watch_id = s.watch_id AND a.state = 'REFUSED' AND NOT a.reopened
              AND a.attempt_id >= s.first_attempt
              AND (s.last_attempt IS NULL OR a.attempt_id <= s.last_attempt)
         JOIN item_queue q ON q.item_type = a.item_type AND q.item_id = a.item_id
         WHERE s.storm_id = $1 AND a.attempt_id > $2 AND a.item_type = $3
         ORDER BY a.attempt_id LIMIT $4",
        "SELECT a.item_id, a.attempt_id, q.amount_minor, q.currency
         FROM storm s
         JOIN attempt a ON a.refused_by = s.watch_id AND NOT a.reopened
              AND a.attempt_id >= s.first_attempt
              AND (s.last_attempt IS NULL OR a.attempt_id <= s.last_attempt)
         JOIN item_queue q ON q.item_type = a.item_type AND q.item_id = a.item_id
         WHERE s.storm_id = $1 AND a.attempt_id > $2 AND a.item_type = $3
         ORDER BY a.attempt_id LIMIT $4",
    );
    let asked = rows_needed(limit, false);
    let after = after.map_or(0, |after| after.0);
    let rows = tx
        .rows(REFUSED, params![id.0, after, item_type, asked])
        .await;
    let refused = |row: &Row| {
        Ok(RefusedItem {
            id: row.get("item_id")?,
            attempt: AttemptId(row.get("attempt_id")?),
            money: row.money()?,
        })
    };
    let rows = rows.iter().map(refused).collect::<StoreResult<_>>()?;
    let key = |row: &RefusedItem| row.attempt;
    Ok(Page::of(rows, asked, limit, |_| true, key))
}

async fn suspicion(tx: &Tx, item: &Item) -> StoreResult<Suspicion> {
    const LAST: &str = "SELECT a.watch_id, a.turn_at, a.settled_at, a.lane, w.canary, w.streak,
                EXISTS (SELECT 1 FROM lane_cursor k
                        WHERE k.lane = a.lane AND k.storm_id IS NOT NULL) AS in_storm
         FROM attempt a JOIN connector_watch w ON w.watch_id = a.watch_id
         WHERE a.item_type = $1 AND a.item_id = $2 AND a.state = 'REFUSED'
         ORDER BY a.attempt_id DESC LIMIT 1";
    // PostgreSQL wants a name for the inner part, SQLite a word about the index.
    const ACCEPTED: Sql = Sql::each(
        "SELECT EXISTS (SELECT 1 FROM (SELECT * FROM attempt INDEXED BY attempt_turn
             WHERE lane = $1 AND turn_at > $2 ORDER BY turn_at LIMIT $4)
         WHERE watch_id = $3 AND kind = 'SEND' AND state = 'DONE') AS accepted_since",
        "SELECT EXISTS (SELECT 1 FROM (SELECT * FROM attempt
             WHERE lane = $1 AND turn_at > $2 ORDER BY turn_at LIMIT $4) l
         WHERE watch_id = $3 AND kind = 'SEND' AND state = 'DONE') AS accepted_since",
    );
    let last = tx.row(LAST, params![&item.item_type, &item.id]).await;
    let Some(last) = last else {
        return Ok(Suspicion::None);
    };
    let limits = Limits {
        canary: last.get("canary")?,
        streak: last.get("streak")?,
    };
    if limits.are_off() {
        return Ok(Suspicion::None);
    }
    if last.get("in_storm")? {
        return Ok(Suspicion::Storm);
    }
    let lane: LaneName = last.get("lane")?;
    let (turn_at, watch): (Timestamp, i64) = (last.get("turn_at")?, last.get("watch_id")?);
    let scanned = params![&lane, turn_at, watch, MOST_SCANNED];
    let accepted_since = tx.one(ACCEPTED, scanned).await?.get("accepted_since")?;
    let refused_at = last.get("settled_at")?;
    Ok(Suspicion::of(accepted_since, refused_at, tx.now().await?))
}
