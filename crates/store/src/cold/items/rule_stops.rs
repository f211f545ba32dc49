//! Payments that rules stop before they are sent, and whom new rules would stop.

use async_trait::async_trait;
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{
    Author, Judged, RuleStop, RuleStops, StoreResult, joined_rules, split_rules,
};

use super::operator_actions::{hold_row, move_status};
use crate::cold::audit::audit_move;
use crate::sql::{Row, Sql, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;

#[async_trait]
impl<D: Database> RuleStops for StoreOn<D> {
    async fn stop_by_rules(&self, item: &Item, run: u32, stop: RuleStop) -> StoreResult<bool> {
        let item = item.clone();
        self.write(Urgency::Urgent, move |tx| async move {
            apply(&tx, &item, run, &stop).await
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
        // On PostgreSQL the page first, then each body by its key, as in `records.rs`; no index lists the usual ends.
        const PAGE: Sql = Sql::each(
            "SELECT q.item_id, q.queue_status, q.finished_at IS NOT NULL AS has_ended, q.lane,
                    b.body, q.requested_time, q.scheduled_exec_time, q.passed_rules
             FROM item_queue q INDEXED BY item_queue_status
             LEFT JOIN item_body b ON b.item_type = q.item_type AND b.item_id = q.item_id
             WHERE q.item_type = $1 AND q.status = $2 AND q.item_id > $3
             ORDER BY q.item_id LIMIT $4",
            "SELECT q.item_id, q.queue_status, q.finished_at IS NOT NULL AS has_ended, q.lane,
                    b.body, q.requested_time, q.scheduled_exec_time, q.passed_rules
             FROM ((SELECT * FROM item_queue WHERE item_type = $1 AND item_id > $3 AND status = $2
                      AND status NOT IN ('PROCESSING', 'DELIVERED')
                    ORDER BY item_id LIMIT $4)
                   UNION ALL
                   (SELECT * FROM item_queue WHERE $2 IN ('PROCESSING', 'DELIVERED')
                      AND item_type = $1 AND item_id > $3 AND status = $2
                    ORDER BY item_id LIMIT $4)) q
             LEFT JOIN LATERAL (SELECT body FROM item_body b
                   WHERE b.item_type = q.item_type AND b.item_id = q.item_id LIMIT 1) b ON true
             ORDER BY q.item_id",
        );
        let after = after.map_or("", ItemId::as_str);
        let page = params![item_type, status, after, limit];
        self.read(move |tx| async move {
            let rows = tx.rows(PAGE, page).await;
            rows.iter().map(judged_from).collect()
        })
        .await
    }
}

async fn apply(tx: &Tx, item: &Item, run: u32, stop: &RuleStop) -> StoreResult<bool> {
    const REJECT: &str =
        "UPDATE item_queue SET last_error = $3 WHERE item_type = $1 AND item_id = $2";
    const HOLD: &str = "UPDATE item_queue SET queue_status = 'HELD', last_error = $3, held_by = $4,
                run = run + 1, claimed_at = NULL, dispatched_at = NULL
         WHERE item_type = $1 AND item_id = $2";
    let found = hold_row(tx, item).await?;
    let Some(found) = found.filter(|found| found.may_be_stopped(run)) else {
        return Ok(false);
    };
    let (kind, id) = (&item.item_type, &item.id);
    let author = Author::new(stop.actor, stop.why.as_str());
    let before = found.queue_status.as_str();
    if let Some(rejected) = &stop.rejected {
        if found.record_status != rejected.to {
            tx.execute(REJECT, params![kind, id, &stop.why]).await;
            move_status(tx, item, &found.record_status, rejected).await;
            audit_move(tx, item, "REJECTED", before, before, &author).await;
        }
        return Ok(true);
    }
    let held = params![kind, id, &stop.why, joined_rules(&stop.rules)];
    tx.execute(HOLD, held).await;
    audit_move(tx, item, "HELD", before, "HELD", &author).await;
    Ok(true)
}

fn judged_from(row: &Row) -> StoreResult<Judged> {
    let passed_rules: Option<String> = row.get("passed_rules")?;
    Ok(Judged {
        id: row.get("item_id")?,
        queue_status: row.word("queue_status", QueueStatus::parse)?,
        has_ended: row.get("has_ended")?,
        lane: row.get("lane")?,
        body: row.get("body")?,
        requested: row.get("requested_time")?,
        due: row.get("scheduled_exec_time")?,
        passed_rules: split_rules(passed_rules.as_deref()),
    })
}
