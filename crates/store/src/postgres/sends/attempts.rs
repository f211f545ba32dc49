//! Attempts: taking over what a dead sender left. Turns and settlements have files of their own.

use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use tollgate_core::id::{AttemptId, Item, WatchId};
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{
    Attempts, CallTurn, CallWanted, Era, History, Past, Settlement, StatusMove, StoreError,
    StoreResult, TurnBlock, TurnsWanted, busy_for,
};

use super::{call_turns, turns};
use crate::postgres::PostgresStore;
use crate::postgres::connection::group::Job;
use crate::postgres::connection::run::{Params, all, execute, optional};
use crate::postgres::connection::value::{Count, Us, word};
use crate::postgres::records::move_status;
use crate::urgency::Urgency;

#[async_trait]
impl Attempts for PostgresStore {
    async fn take_over(
        &self,
        item: &Item,
        run: u32,
        tolerance: Duration,
        in_doubt: &StatusMove,
    ) -> StoreResult<History> {
        let look = LookAt {
            item: item.clone(),
            tolerance,
        };
        let before = self.looks.write(look).await?;
        if !before
            .past
            .iter()
            .any(|past| past.state == AttemptState::Open)
        {
            return Ok(before);
        }
        let (item, in_doubt) = (item.clone(), in_doubt.clone());
        self.in_force(Urgency::Urgent, move |tx| {
            Box::pin(async move {
                let left = history(tx, &item, tolerance).await?;
                if left.busy_for.is_some() {
                    // Judged once: a moment later its time may have passed, and it would look as if it had been abandoned.
                    return Ok(left);
                }
                if abandon_passed(tx, &item, run, &left).await? {
                    move_status(tx, &item, &in_doubt).await?;
                }
                history(tx, &item, tolerance).await
            })
        })
        .await
    }

    async fn take_turns(&self, wanted: TurnsWanted) -> StoreResult<TurnBlock> {
        let (margin, epoch) = (self.gate_margin, self.node.epoch());
        self.in_force(Urgency::Urgent, move |tx| {
            Box::pin(async move { turns::take(tx, &wanted, margin, epoch).await })
        })
        .await
    }

    async fn take_call_turn(&self, wanted: CallWanted) -> StoreResult<CallTurn> {
        let (margin, epoch) = (self.gate_margin, self.node.epoch());
        self.in_force(Urgency::Urgent, move |tx| {
            Box::pin(async move { call_turns::take(tx, &wanted, margin, epoch).await })
        })
        .await
    }

    async fn settle(&self, settlement: Settlement) -> StoreResult<bool> {
        self.settlements.write(settlement).await
    }
}

/// An open attempt whose turn has passed will never be answered. Nothing is locked between looking
/// and writing: no other attempt can be opened while this one is open, and if its turn has been
/// given anew meanwhile it is not the one that was seen.
async fn abandon_passed(
    tx: &Transaction<'_>,
    item: &Item,
    run: u32,
    left: &History,
) -> StoreResult<bool> {
    const OWNER: &str = "SELECT 1 FROM item_queue
         WHERE item_type = $1 AND item_id = $2 AND run = $3
           AND queue_status IN ('CLAIMED', 'DISPATCHED') AND finished_at IS NULL";
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let owner = optional(tx, OWNER, &[&kind, &id, &i64::from(run)]).await?;
    let open = |past: &&Past| past.state == AttemptState::Open;
    match left.past.iter().find(open) {
        Some(open) if owner.is_some() => abandon(tx, item, open).await,
        _ => Ok(false),
    }
}

/// Nobody will record an answer to this attempt; whether it was still open, as it was seen.
pub(crate) async fn abandon(tx: &Transaction<'_>, item: &Item, open: &Past) -> StoreResult<bool> {
    const ABANDON: &str = "UPDATE attempt SET state = 'UNKNOWN', settled_at = tg_now(),
                detail = 'the sender ended before an answer was recorded'
         WHERE item_type = $1 AND item_id = $2 AND attempt_id = $3 AND turn_at = $4
           AND state = 'OPEN'";
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let as_seen: Params<'_> = &[&kind, &id, &open.attempt.0, &Us(open.turn_at)];
    Ok(execute(tx, ABANDON, as_seen).await? == 1)
}

/// One item whose past is looked at.
#[derive(Debug, Clone)]
pub(crate) struct LookAt {
    item: Item,
    tolerance: Duration,
}

impl Job for LookAt {
    type Answer = History;
}

/// Thousands of items look at once when a node takes over; one by one they would keep every connection from the gate.
pub(crate) async fn look_at_all(
    tx: &Transaction<'_>,
    looks: Vec<LookAt>,
) -> StoreResult<Vec<StoreResult<History>>> {
    let items: Vec<&Item> = looks.iter().map(|look| &look.item).collect();
    let rows = past_rows(tx, &items).await?;
    let mut of_item = rows.chunk_by(|a, b| a.get::<_, i64>(0) == b.get::<_, i64>(0));
    let histories = looks.iter().map(|look| {
        let rows = of_item.next().unwrap_or_default();
        history_from(rows, look.tolerance)
    });
    Ok(histories.collect())
}

pub(crate) async fn history(
    c: &impl GenericClient,
    item: &Item,
    tolerance: Duration,
) -> StoreResult<History> {
    history_from(&past_rows(c, &[item]).await?, tolerance)
}

/// In the order of the items. Each has one row at least, for the time.
async fn past_rows(c: &impl GenericClient, items: &[&Item]) -> StoreResult<Vec<Row>> {
    const HISTORY: &str = "SELECT i.n, tg_now(), e.number, e.since, a.attempt_id, a.kind, a.state,
                a.turn_at, a.era, a.detail, a.idempotency_key,
                coalesce(q.failures, 0), a.reopened, q.scheduled_exec_time, a.watch_id,
                coalesce(q.status, ''), q.last_error
         FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS i (item_type, item_id, n)
         JOIN clock_era e ON e.one = 1
         LEFT JOIN item_queue q ON q.item_type = i.item_type AND q.item_id = i.item_id
         LEFT JOIN attempt a ON a.item_type = i.item_type AND a.item_id = i.item_id
         ORDER BY i.n, a.attempt_id";
    let kinds: Vec<&str> = items.iter().map(|item| item.item_type.as_str()).collect();
    let ids: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
    all(c, HISTORY, &[&kinds, &ids]).await
}

fn history_from(rows: &[Row], tolerance: Duration) -> StoreResult<History> {
    let past = rows.iter().filter_map(|row| past_from(row).transpose());
    let past = past.collect::<StoreResult<Vec<Past>>>()?;
    let Some(first) = rows.first() else {
        return Err(StoreError::Bug("clock_era is empty".into()));
    };
    let (now, since) = (first.get::<_, Us>(1).0, first.get::<_, Us>(3).0);
    let number = first.get(2);
    let era = Era { number, since };
    Ok(History {
        failures: first.get::<_, Count>(11).0,
        due: first.get::<_, Option<Us>>(13).map_or(now, |us| us.0),
        status: first.get(15),
        last_error: first.get(16),
        busy_for: busy_for(&past, era, tolerance, now),
        past,
        now,
        era,
    })
}

/// Nothing in the one row of an item without attempts.
fn past_from(row: &Row) -> StoreResult<Option<Past>> {
    let Some(attempt) = row.get::<_, Option<i64>>(4) else {
        return Ok(None);
    };
    Ok(Some(Past {
        attempt: AttemptId(attempt),
        kind: word(row, 5, AttemptKind::parse)?,
        state: word(row, 6, AttemptState::parse)?,
        key: row.get(10),
        turn_at: row.get::<_, Us>(7).0,
        era: row.get(8),
        detail: row.get(9),
        reopened: row.get(12),
        watch: row.get::<_, Option<i64>>(14).map(WatchId),
    }))
}
