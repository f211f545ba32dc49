//! Rules at execution: items that they stop, and items as they see them.

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use tollgate_core::id::{Item, ItemId, ItemType, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{
    Author, Judged, RuleStop, RuleStops, StoreResult, joined_rules, split_rules,
};

use super::PostgresStore;
use super::interventions::{audit_move, found, lock_row};
use super::records::move_status;
use super::run::{Params, all, execute};
use super::value::{Us, storable, word};
use crate::urgency::Urgency;

#[async_trait]
impl RuleStops for PostgresStore {
    async fn stop_by_rules(&self, item: &Item, run: u32, stop: RuleStop) -> StoreResult<bool> {
        let item = item.clone();
        self.runner
            .in_transaction(Urgency::Urgent, move |tx| {
                Box::pin(async move { apply(tx, &item, run, &stop).await })
            })
            .await
    }

    async fn with_status(
        &self,
        item_type: &ItemType,
        status: &str,
        after: Option<&ItemId>,
        limit: u32,
    ) -> StoreResult<Vec<Judged>> {
        // The page first, then each body by its key, as in `records.rs`.
        const PAGE: &str = "SELECT q.item_id, q.queue_status, q.finished_at IS NOT NULL, q.lane,
                 b.body, q.requested_time, q.scheduled_exec_time, q.passed_rules
             FROM (SELECT * FROM item_queue WHERE item_type = $1 AND status = $2 AND item_id > $3
                   ORDER BY item_id LIMIT $4) q
             LEFT JOIN LATERAL (SELECT body FROM item_body b
                   WHERE b.item_type = q.item_type AND b.item_id = q.item_id LIMIT 1) b ON true
             ORDER BY q.item_id";
        let (item_type, status) = (item_type.clone(), status.to_owned());
        let after = after.map_or(String::new(), ToString::to_string);
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let params: Params<'_> =
                        &[&item_type.as_str(), &status, &after, &i64::from(limit)];
                    let rows = all(c, PAGE, params).await?;
                    rows.iter().map(judged_from).collect()
                })
            })
            .await
    }
}

async fn apply(tx: &Transaction<'_>, item: &Item, run: u32, stop: &RuleStop) -> StoreResult<bool> {
    const REJECT: &str = "UPDATE item_queue SET queue_status = 'DISPATCHED', last_error = $3,
                finished_at = tg_now(), dispatched_at = coalesce(dispatched_at, tg_now())
         WHERE item_type = $1 AND item_id = $2";
    const HOLD: &str = "UPDATE item_queue SET queue_status = 'HELD', last_error = $3, held_by = $4,
                run = run + 1, claimed_at = NULL, dispatched_at = NULL
         WHERE item_type = $1 AND item_id = $2";
    lock_row(tx, item).await?;
    let found = found(tx, item).await?;
    let Some(found) = found.filter(|found| found.may_be_stopped(run)) else {
        return Ok(false);
    };
    let (kind, id, why) = (
        item.item_type.as_str(),
        item.id.as_str(),
        storable(&stop.why),
    );
    let author = Author::new(stop.actor, &*why);
    if let Some(rejected) = &stop.rejected {
        execute(tx, REJECT, &[&kind, &id, &&*why]).await?;
        move_status(tx, item, rejected).await?;
        audit_move(tx, item, "REJECTED", &found, "DISPATCHED", &author).await?;
        return Ok(true);
    }
    let rules = joined_rules(&stop.rules);
    execute(tx, HOLD, &[&kind, &id, &&*why, &rules]).await?;
    audit_move(tx, item, "HELD", &found, "HELD", &author).await?;
    Ok(true)
}

fn judged_from(row: &Row) -> StoreResult<Judged> {
    Ok(Judged {
        id: ItemId::new(row.get::<_, String>(0)),
        queue_status: word(row, 1, QueueStatus::parse)?,
        has_ended: row.get(2),
        lane: LaneName::new(row.get::<_, String>(3)),
        body: row.get(4),
        requested: row.get::<_, Us>(5).0,
        due: row.get::<_, Us>(6).0,
        passed_rules: split_rules(row.get(7)),
    })
}
