//! Rules at execution: items that they stop, and items as they see them.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use tollgate_core::id::{Item, ItemId, ItemType, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{
    Author, Judged, RuleStop, RuleStops, StoreResult, joined_rules, split_rules,
};

use super::SqliteStore;
use super::interventions::{audit_move, found};
use super::records::move_status;
use super::value::{Us, word};
use crate::urgency::Urgency;

#[async_trait]
impl RuleStops for SqliteStore {
    async fn stop_by_rules(&self, item: &Item, run: u32, stop: RuleStop) -> StoreResult<bool> {
        let (item, clock) = (item.clone(), self.clock.clone());
        let write = move |c: &Connection| apply(c, &item, run, &stop, Us(clock.now()));
        self.writer.write(Urgency::Urgent, write).await
    }

    async fn with_status(
        &self,
        item_type: &ItemType,
        status: &str,
        after: Option<&ItemId>,
        limit: u32,
    ) -> StoreResult<Vec<Judged>> {
        let (item_type, status) = (item_type.clone(), status.to_owned());
        let after = after.map_or(String::new(), ToString::to_string);
        let read = move |c: &Connection| -> rusqlite::Result<Vec<Judged>> {
            c.prepare_cached(
                "SELECT q.item_id, q.queue_status, q.finished_at IS NOT NULL, q.lane, b.body,
                        q.requested_time, q.scheduled_exec_time, q.passed_rules
                 FROM item_queue q INDEXED BY item_queue_status
                 LEFT JOIN item_body b ON b.item_type = q.item_type AND b.item_id = q.item_id
                 WHERE q.item_type = ?1 AND q.status = ?2 AND q.item_id > ?3
                 ORDER BY q.item_id LIMIT ?4",
            )?
            .query_map(
                params![item_type.as_str(), status, after, limit],
                judged_from,
            )?
            .collect()
        };
        self.readers.read(read).await
    }
}

fn apply(
    c: &Connection,
    item: &Item,
    run: u32,
    stop: &RuleStop,
    now: Us,
) -> rusqlite::Result<bool> {
    let Some(found) = found(c, item)?.filter(|found| found.may_be_stopped(run)) else {
        return Ok(false);
    };
    let (kind, id) = (item.item_type.as_str(), item.id.as_str());
    let author = Author::new(stop.actor, stop.why.as_str());
    let before = found.queue_status.as_str();
    if let Some(rejected) = &stop.rejected {
        c.prepare_cached(
            "UPDATE item_queue SET queue_status = 'DISPATCHED', last_error = ?3, finished_at = ?4,
                    dispatched_at = coalesce(dispatched_at, ?4)
             WHERE item_type = ?1 AND item_id = ?2",
        )?
        .execute(params![kind, id, stop.why, now])?;
        move_status(c, item, rejected, now)?;
        audit_move(c, item, "REJECTED", before, "DISPATCHED", &author, now)?;
        return Ok(true);
    }
    c.prepare_cached(
        "UPDATE item_queue SET queue_status = 'HELD', last_error = ?3, held_by = ?4, run = run + 1,
                claimed_at = NULL, dispatched_at = NULL
         WHERE item_type = ?1 AND item_id = ?2",
    )?
    .execute(params![kind, id, stop.why, joined_rules(&stop.rules)])?;
    audit_move(c, item, "HELD", before, "HELD", &author, now)?;
    Ok(true)
}

fn judged_from(row: &Row<'_>) -> rusqlite::Result<Judged> {
    Ok(Judged {
        id: ItemId::new(row.get::<_, String>(0)?),
        queue_status: word(row, 1, QueueStatus::parse)?,
        has_ended: row.get(2)?,
        lane: LaneName::new(row.get::<_, String>(3)?),
        body: row.get(4)?,
        requested: row.get::<_, Us>(5)?.0,
        due: row.get::<_, Us>(6)?.0,
        passed_rules: split_rules(row.get::<_, Option<String>>(7)?.as_deref()),
    })
}
