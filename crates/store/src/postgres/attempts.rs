//! Attempts: taking over what a dead sender left. Turns and settlements have files of their own.

use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use tollgate_core::id::{AttemptId, Item};
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{
    Attempts, History, Past, Settlement, StoreResult, TurnBlock, TurnsWanted,
};

use super::run::{Urgency, all, execute};
use super::value::{Us, micros, until};
use super::{PostgresStore, turns};

#[async_trait]
impl Attempts for PostgresStore {
    async fn take_over(&self, item: &Item, tolerance: Duration) -> StoreResult<History> {
        let mine = item.clone();
        let before = self
            .runner
            .read(Urgency::Urgent, move |c| {
                Box::pin(async move { history(c, &mine, tolerance).await })
            })
            .await?;
        if !before
            .past
            .iter()
            .any(|past| past.state == AttemptState::Open)
        {
            return Ok(before);
        }
        let item = item.clone();
        self.runner
            .write(Urgency::Urgent, move |tx| {
                Box::pin(async move {
                    abandon(tx, &item, tolerance).await?;
                    history(tx, &item, tolerance).await
                })
            })
            .await
    }

    async fn take_turns(&self, wanted: TurnsWanted) -> StoreResult<TurnBlock> {
        let margin = self.gate_margin;
        self.runner
            .write(Urgency::Urgent, move |tx| {
                Box::pin(async move { turns::take(tx, &wanted, margin).await })
            })
            .await
    }

    async fn settle(&self, settlement: Settlement) -> StoreResult<bool> {
        self.settlements.write(settlement).await
    }
}

/// An open attempt whose turn has passed will never be answered.
async fn abandon(c: &impl GenericClient, item: &Item, tolerance: Duration) -> StoreResult<()> {
    const ABANDON: &str = "UPDATE attempt SET state = 'UNKNOWN', settled_at = tg_now(),
                detail = 'the sender ended before an answer was recorded'
         WHERE item_type = $1 AND item_id = $2 AND state = 'OPEN'
           AND turn_at + $3 <= (SELECT tg_now())";
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    execute(c, ABANDON, &[&kind, &id, &micros(tolerance)])
        .await
        .map(drop)
}

/// Always one row at least, for the time.
async fn history(c: &impl GenericClient, item: &Item, tolerance: Duration) -> StoreResult<History> {
    const HISTORY: &str = "SELECT clock.now, a.attempt_id, a.kind, a.state, a.turn_at, a.detail
         FROM (SELECT tg_now() AS now) clock
         LEFT JOIN attempt a ON a.item_type = $1 AND a.item_id = $2
         ORDER BY a.attempt_id";
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let rows = all(c, HISTORY, &[&kind, &id]).await?;
    let past: Vec<Past> = rows.iter().filter_map(past_from).collect();
    let now = rows
        .first()
        .map(|row| row.get::<_, Us>(0))
        .unwrap_or_default();
    let open = past.iter().find(|a| a.state == AttemptState::Open);
    let busy = open.map(|open| until(now.micros(), Us(open.turn_at).micros() + micros(tolerance)));
    Ok(History {
        busy_for: busy.filter(|left| !left.is_zero()),
        past,
        now: now.0,
    })
}

fn past_from(row: &Row) -> Option<Past> {
    let attempt: Option<i64> = row.get(1);
    Some(Past {
        attempt: AttemptId(attempt?),
        kind: AttemptKind::parse(row.get(2)).unwrap_or(AttemptKind::Send),
        state: AttemptState::parse(row.get(3)).unwrap_or(AttemptState::Unknown),
        turn_at: row.get::<_, Us>(4).0,
        detail: row.get(5),
    })
}
