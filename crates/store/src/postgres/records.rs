//! Records: an item as people ask about it.

use async_trait::async_trait;
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use tollgate_core::id::{BatchId, FlowId, Item, ItemId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::money::{Currency, Money};
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{
    AttemptView, ItemView, OwnedWanted, Page, RecordLine, Records, RecordsWanted, StatusMove,
    StoreResult, rows_needed, split_rules,
};

use super::PostgresStore;
use crate::postgres::connection::run::{Params, all, execute};
use crate::postgres::connection::value::{Count, Us, storable, word};
use crate::urgency::Urgency;

/// One statement is one consistent read: a row per attempt, or one row without.
const ITEM: &str = "SELECT q.status, q.amount_minor, q.currency, coalesce(b.content_hash, ''),
            b.body, q.lane, q.queue_status, q.run, q.scheduled_time, q.requested_time,
            q.deadline, q.scheduled_exec_time, coalesce(b.init_workflow_id, ''),
            q.exec_workflow_id, q.retry_count, q.last_error, q.created_at,
            q.claimed_at, q.dispatched_at, q.finished_at, q.hold_after IS NOT NULL,
            q.dispatch_batch_id, q.passed_rules,
            a.kind, a.state, a.run, a.turn_at, a.settled_at, a.detail, a.idempotency_key, a.reopened
     FROM item_queue q
     LEFT JOIN item_body b ON b.item_type = q.item_type AND b.item_id = q.item_id
     LEFT JOIN attempt a ON a.item_type = q.item_type AND a.item_id = q.item_id
     WHERE q.item_type = $1 AND q.item_id = $2
     ORDER BY a.attempt_id";

#[async_trait]
impl Records for PostgresStore {
    async fn item(&self, item: &Item) -> StoreResult<Option<ItemView>> {
        let asked = item;
        let item = item.clone();
        let found = self
            .runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let rows = all(c, ITEM, &[&item.item_type.as_str(), &item.id.as_str()]).await?;
                    let Some(first) = rows.first() else {
                        return Ok(None);
                    };
                    let mut view = view_from(first, &item)?;
                    let attempts = rows.iter().filter_map(|row| attempt_from(row).transpose());
                    view.attempts = attempts.collect::<StoreResult<_>>()?;
                    Ok(Some(view))
                })
            })
            .await?;
        match found {
            Some(view) => Ok(Some(view)),
            None => self.remembered(asked).await,
        }
    }

    async fn bodies(&self, items: &[Item]) -> StoreResult<Vec<Option<String>>> {
        const BODIES: &str = "SELECT b.body
             FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (item_type, item_id, place)
             LEFT JOIN LATERAL (SELECT body FROM item_body b
                   WHERE b.item_type = w.item_type AND b.item_id = w.item_id LIMIT 1) b ON true
             ORDER BY w.place";
        let types: Vec<String> = items.iter().map(|it| it.item_type.to_string()).collect();
        let ids: Vec<String> = items.iter().map(|it| it.id.to_string()).collect();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let rows = all(c, BODIES, &[&types, &ids]).await?;
                    Ok(rows.iter().map(|row| row.get(0)).collect())
                })
            })
            .await
    }

    async fn records(&self, wanted: RecordsWanted) -> StoreResult<Page<RecordLine, ItemId>> {
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let asked = rows_needed(wanted.limit, wanted.is_filtered());
                    let rows = lines(c, &wanted, asked).await?;
                    let rows = rows.iter().map(line_from).collect::<StoreResult<_>>()?;
                    Ok(wanted.page(rows, asked))
                })
            })
            .await
    }

    async fn owned(&self, wanted: OwnedWanted) -> StoreResult<Vec<ItemId>> {
        const OWNED: &str = "SELECT item_id FROM item_queue
             WHERE by_owner AND item_type = $1 AND owner = $2 AND status = ANY($3) LIMIT $4";
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let kind = wanted.item_type.as_str();
                    let (owner, limit) = (storable(&wanted.owner), i64::from(wanted.limit));
                    let params: Params<'_> = &[&kind, &&*owner, &wanted.statuses, &limit];
                    let rows = all(c, OWNED, params).await?;
                    let id = |row: &Row| ItemId::new(row.get::<_, String>(0));
                    Ok(rows.iter().map(id).collect())
                })
            })
            .await
    }
}

async fn lines(
    c: &impl GenericClient,
    wanted: &RecordsWanted,
    asked: u32,
) -> StoreResult<Vec<Row>> {
    const ALL: &str = "SELECT item_id, status, amount_minor, currency, lane,
             queue_status, run, scheduled_time, deadline, created_at,
             q.scheduled_exec_time, q.finished_at IS NOT NULL,
             (SELECT max(a.turn_at) FROM attempt a
              WHERE a.item_type = q.item_type AND a.item_id = q.item_id),
             EXISTS (SELECT 1 FROM attempt a WHERE a.item_type = q.item_type
                     AND a.item_id = q.item_id AND a.run = q.run)
         FROM item_queue q WHERE item_type = $1 AND item_id > $2 ORDER BY item_id LIMIT $3";
    const OF_STATUS: &str = "SELECT item_id, status, amount_minor, currency, lane,
             queue_status, run, scheduled_time, deadline, created_at,
             q.scheduled_exec_time, q.finished_at IS NOT NULL,
             (SELECT max(a.turn_at) FROM attempt a
              WHERE a.item_type = q.item_type AND a.item_id = q.item_id),
             EXISTS (SELECT 1 FROM attempt a WHERE a.item_type = q.item_type
                     AND a.item_id = q.item_id AND a.run = q.run)
         FROM item_queue q WHERE item_type = $1 AND item_id > $2 AND status = $4
           AND status NOT IN ('PROCESSING', 'DELIVERED')
         ORDER BY item_id LIMIT $3";
    // The page first, then each row by its key. As a plain join it was planned as a merge of whole tables, which read
    // all the rows before the page.
    const OF_BULK: &str = "SELECT q.item_id, q.status, q.amount_minor, q.currency, q.lane,
             q.queue_status, q.run, q.scheduled_time, q.deadline, q.created_at,
             q.scheduled_exec_time, q.finished_at IS NOT NULL,
             (SELECT max(a.turn_at) FROM attempt a
              WHERE a.item_type = q.item_type AND a.item_id = q.item_id),
             EXISTS (SELECT 1 FROM attempt a WHERE a.item_type = q.item_type
                     AND a.item_id = q.item_id AND a.run = q.run)
         FROM (SELECT item_type, item_id FROM item_body
               WHERE item_type = $1 AND item_id > $2 AND bulk_id = $4
               ORDER BY item_id LIMIT $3) b
         CROSS JOIN LATERAL (SELECT * FROM item_queue q
               WHERE q.item_type = b.item_type AND q.item_id = b.item_id LIMIT 1) q
         ORDER BY b.item_id";
    const OF_OWNER: &str = "SELECT item_id, status, amount_minor, currency, lane,
             queue_status, run, scheduled_time, deadline, created_at,
             q.scheduled_exec_time, q.finished_at IS NOT NULL,
             (SELECT max(a.turn_at) FROM attempt a
              WHERE a.item_type = q.item_type AND a.item_id = q.item_id),
             EXISTS (SELECT 1 FROM attempt a WHERE a.item_type = q.item_type
                     AND a.item_id = q.item_id AND a.run = q.run)
         FROM item_queue q WHERE by_owner AND item_type = $1 AND item_id > $2 AND owner = $4
         ORDER BY item_id LIMIT $3";
    let after = wanted.after.as_ref().map_or("", ItemId::as_str);
    let (kind, asked) = (wanted.item_type.as_str(), i64::from(asked));
    if let (None, Some(owner)) = (&wanted.bulk, &wanted.owner) {
        let owner = storable(owner);
        return all(c, OF_OWNER, &[&kind, &after, &asked, &&*owner]).await;
    }
    match (&wanted.bulk, &wanted.status) {
        (Some(bulk), _) => {
            let bulk = storable(bulk.as_str());
            all(c, OF_BULK, &[&kind, &after, &asked, &&*bulk]).await
        }
        (None, None) => all(c, ALL, &[&kind, &after, &asked]).await,
        (None, Some(_)) if wanted.is_of_usual_end() => all(c, ALL, &[&kind, &after, &asked]).await,
        (None, Some(status)) => {
            let status = storable(status);
            all(c, OF_STATUS, &[&kind, &after, &asked, &&*status]).await
        }
    }
}

fn line_from(row: &Row) -> StoreResult<RecordLine> {
    Ok(RecordLine {
        id: ItemId::new(row.get::<_, String>(0)),
        status: row.get(1),
        money: money_from(row, 2)?,
        lane: LaneName::new(row.get::<_, String>(4)),
        queue_status: word(row, 5, QueueStatus::parse)?,
        run: row.get::<_, Count>(6).0,
        slot: row.get::<_, Us>(7).0,
        deadline: row.get::<_, Option<Us>>(8).map(|us| us.0),
        created_at: row.get::<_, Us>(9).0,
        due: row.get::<_, Us>(10).0,
        has_ended: row.get(11),
        last_turn: row.get::<_, Option<Us>>(12).map(|us| us.0),
        was_sent: row.get(13),
    })
}

/// An amount, from its column and the currency's in the next.
pub(super) fn money_from(row: &Row, column: usize) -> StoreResult<Money> {
    let currency = word(row, column + 1, Currency::from_code)?;
    let minor = row.get(column);
    Ok(Money { minor, currency })
}

fn view_from(row: &Row, item: &Item) -> StoreResult<ItemView> {
    let time = |column: usize| row.get::<_, Us>(column).0;
    let maybe_time = |column: usize| row.get::<_, Option<Us>>(column).map(|us| us.0);
    Ok(ItemView {
        item: item.clone(),
        status: row.get(0),
        money: money_from(row, 1)?,
        content_hash: row.get(3),
        body: row.get(4),
        lane: LaneName::new(row.get::<_, String>(5)),
        queue_status: word(row, 6, QueueStatus::parse)?,
        run: row.get::<_, Count>(7).0,
        slot: time(8),
        requested: time(9),
        deadline: maybe_time(10),
        due: time(11),
        init_flow: FlowId::new(row.get::<_, String>(12)),
        exec_flow: row.get::<_, Option<String>>(13).map(FlowId::new),
        retry_count: row.get::<_, Count>(14).0,
        last_error: row.get(15),
        created_at: time(16),
        claimed_at: maybe_time(17),
        dispatched_at: maybe_time(18),
        finished_at: maybe_time(19),
        hold_if_late: row.get(20),
        dispatch_batch: row.get::<_, Option<String>>(21).map(BatchId::new),
        passed_rules: split_rules(row.get(22)),
        attempts: vec![],
        archived: None,
    })
}

/// Nothing where the item has no attempt.
fn attempt_from(row: &Row) -> StoreResult<Option<AttemptView>> {
    if row.get::<_, Option<&str>>(23).is_none() {
        return Ok(None);
    }
    Ok(Some(AttemptView {
        kind: word(row, 23, AttemptKind::parse)?,
        state: word(row, 24, AttemptState::parse)?,
        run: row.get::<_, Count>(25).0,
        turn_at: row.get::<_, Us>(26).0,
        settled_at: row.get::<_, Option<Us>>(27).map(|us| us.0),
        detail: row.get(28),
        key: row.get(29),
        reopened: row.get(30),
    }))
}

/// Moves an item's status, if it is one of those that it may move from.
pub(super) async fn move_status(
    c: &impl GenericClient,
    item: &Item,
    status: &StatusMove,
) -> StoreResult<()> {
    const MOVE: &str = "UPDATE item_queue SET status = $3, updated_at = tg_now()
         WHERE item_type = $1 AND item_id = $2 AND status = ANY($4)";
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let params: Params<'_> = &[&kind, &id, &status.to, &status.from];
    execute(c, MOVE, params).await.map(drop)
}
