//! An item as it leaves the hot tables: everything that they know of it, read in one go for many items.

use std::collections::HashMap;

use tollgate_core::archive::{ArchivedAttempt, ArchivedAudit, ArchivedItem, LINE_SCHEMA};
use tollgate_core::erasure::is_erased;
use tollgate_core::id::{ItemId, ItemType};
use tollgate_core::money::Currency;
use tollgate_core::ports::{StoreError, StoreResult};

use crate::cold::imports::packing::{pack, unpack};
use crate::sql::{Row, Sql, Tx, params};

/// The text of an item's line.
pub(super) fn line_of(item: &ArchivedItem) -> StoreResult<String> {
    let item_name = item.item();
    serde_json::to_string(item)
        .map_err(|e| StoreError::Bug(format!("{item_name} cannot be written as a line: {e}")))
}

pub(super) fn packed(item: &ArchivedItem) -> StoreResult<Vec<u8>> {
    pack(line_of(item)?.as_bytes())
}

pub(super) fn unpacked(packed: &[u8]) -> StoreResult<String> {
    String::from_utf8(unpack(packed)?)
        .map_err(|e| StoreError::Bug(format!("a line of the archive is not text: {e}")))
}

pub(super) fn line_from(row: &Row) -> StoreResult<String> {
    unpacked(&row.get::<Vec<u8>>("line")?)
}

pub(super) fn item_from(line: &str) -> StoreResult<ArchivedItem> {
    serde_json::from_str(line)
        .map_err(|e| StoreError::Bug(format!("a line of the archive cannot be read: {e}")))
}

/// Ids as a parameter.
pub(super) fn ids_json<'i>(ids: impl Iterator<Item = &'i ItemId>) -> StoreResult<String> {
    let ids: Vec<&str> = ids.map(ItemId::as_str).collect();
    serde_json::to_string(&ids).map_err(|e| StoreError::Bug(e.to_string()))
}

const ITEMS: Sql = Sql::each(
    "SELECT q.item_id, q.status, q.queue_status, q.currency, q.amount_minor, q.lane, q.created_at,
            q.finished_at, q.updated_at, q.requested_time, q.window_start, q.scheduled_time,
            q.scheduled_exec_time, q.generation, q.deadline, q.hold_after, q.duplicate_key, q.owner,
            q.counted, q.by_owner, q.run, q.retry_count, q.failures, q.fence, q.claimed_at,
            q.dispatched_at, q.dispatch_batch_id, q.exec_workflow_id, q.last_error, q.held_by,
            q.passed_rules, b.content_hash, b.body, b.init_workflow_id, b.bulk_id
     FROM json_each($2) w
     CROSS JOIN item_queue q ON q.item_type = $1 AND q.item_id = w.value
     LEFT JOIN item_body b ON b.item_type = q.item_type AND b.item_id = q.item_id",
    "SELECT q.item_id, q.status, q.queue_status, q.currency, q.amount_minor, q.lane, q.created_at,
            q.finished_at, q.updated_at, q.requested_time, q.window_start, q.scheduled_time,
            q.scheduled_exec_time, q.generation, q.deadline, q.hold_after, q.duplicate_key, q.owner,
            q.counted, q.by_owner, q.run, q.retry_count, q.failures, q.fence, q.claimed_at,
            q.dispatched_at, q.dispatch_batch_id, q.exec_workflow_id, q.last_error, q.held_by,
            q.passed_rules, b.content_hash, b.body, b.init_workflow_id, b.bulk_id
     FROM json_array_elements_text(CAST(CAST($2 AS text) AS json)) AS w (item_id)
     CROSS JOIN LATERAL (SELECT * FROM item_queue
          WHERE item_type = $1 AND item_id = w.item_id LIMIT 1) q
     LEFT JOIN LATERAL (SELECT * FROM item_body
          WHERE item_type = $1 AND item_id = w.item_id LIMIT 1) b ON true",
);

const ATTEMPTS: Sql = Sql::each(
    "SELECT a.item_id, a.attempt_id, a.run, a.kind, a.state, a.lane, a.idempotency_key, a.turn_at,
            a.era, a.settled_at, a.detail, a.reopened, a.watch_id
     FROM json_each($2) w
     CROSS JOIN attempt a ON a.item_type = $1 AND a.item_id = w.value",
    "SELECT a.item_id, a.attempt_id, a.run, a.kind, a.state, a.lane, a.idempotency_key, a.turn_at,
            a.era, a.settled_at, a.detail, a.reopened, a.watch_id
     FROM json_array_elements_text(CAST(CAST($2 AS text) AS json)) AS w (item_id)
     CROSS JOIN LATERAL (SELECT * FROM attempt
          WHERE item_type = $1 AND item_id = w.item_id OFFSET 0) a",
);

const AUDIT: Sql = Sql::each(
    "SELECT l.item_id, l.audit_id, l.created_at, l.batch_id, l.action, l.status_before,
            l.status_after, l.actor, l.detail
     FROM json_each($2) w
     CROSS JOIN audit_log l INDEXED BY audit_log_item
           ON l.item_type = $1 AND l.item_id = w.value AND l.item_id IS NOT NULL",
    "SELECT l.item_id, l.audit_id, l.created_at, l.batch_id, l.action, l.status_before,
            l.status_after, l.actor, l.detail
     FROM json_array_elements_text(CAST(CAST($2 AS text) AS json)) AS w (item_id)
     CROSS JOIN LATERAL (SELECT * FROM audit_log
          WHERE item_type = $1 AND item_id = w.item_id OFFSET 0) l",
);

/// In the order of their ids.
pub(super) async fn lines(
    tx: &Tx,
    item_type: &ItemType,
    ids: &str,
) -> StoreResult<Vec<ArchivedItem>> {
    let mut attempts: HashMap<ItemId, Vec<ArchivedAttempt>> = HashMap::new();
    for row in tx.rows(ATTEMPTS, params![item_type, ids]).await {
        let its: &mut Vec<_> = attempts.entry(row.get("item_id")?).or_default();
        its.push(attempt_from(&row)?);
    }
    let mut audit: HashMap<ItemId, Vec<ArchivedAudit>> = HashMap::new();
    for row in tx.rows(AUDIT, params![item_type, ids]).await {
        let its: &mut Vec<_> = audit.entry(row.get("item_id")?).or_default();
        its.push(audit_from(&row)?);
    }
    let mut items = vec![];
    for row in tx.rows(ITEMS, params![item_type, ids]).await {
        let mut item = item_of_row(&row, item_type)?;
        item.attempts = attempts.remove(&item.id).unwrap_or_default();
        item.attempts.sort_by_key(|attempt| attempt.attempt_id);
        item.audit = audit.remove(&item.id).unwrap_or_default();
        item.audit.sort_by_key(|entry| entry.audit_id);
        let erased = item.audit.iter().find(|entry| entry.action == "ERASED");
        item.erased_at = erased.map(|entry| entry.at);
        items.push(item);
    }
    items.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(items)
}

fn item_of_row(row: &Row, item_type: &ItemType) -> StoreResult<ArchivedItem> {
    let init_flow: Option<String> = row.get("init_workflow_id")?;
    let content_hash: Option<String> = row.get("content_hash")?;
    Ok(ArchivedItem {
        schema: LINE_SCHEMA,
        item_type: item_type.clone(),
        id: row.get("item_id")?,
        status: row.get("status")?,
        queue_status: row.get("queue_status")?,
        currency: row.word("currency", Currency::from_code)?,
        amount_minor: row.get("amount_minor")?,
        lane: row.get("lane")?,
        created_at: row.get("created_at")?,
        finished_at: row.get("finished_at")?,
        updated_at: row.get("updated_at")?,
        requested_time: row.get("requested_time")?,
        window_start: row.get("window_start")?,
        scheduled_time: row.get("scheduled_time")?,
        scheduled_exec_time: row.get("scheduled_exec_time")?,
        generation: row.get("generation")?,
        deadline: row.get("deadline")?,
        hold_after: row.get("hold_after")?,
        duplicate_key: row.get("duplicate_key")?,
        owner: row.get("owner")?,
        counted: row.get("counted")?,
        by_owner: row.get("by_owner")?,
        run: row.get("run")?,
        retry_count: row.get("retry_count")?,
        failures: row.get("failures")?,
        fence: row.get("fence")?,
        claimed_at: row.get("claimed_at")?,
        dispatched_at: row.get("dispatched_at")?,
        dispatch_batch_id: row.get("dispatch_batch_id")?,
        exec_flow: row.get("exec_workflow_id")?,
        last_error: row.get("last_error")?,
        held_by: row.get("held_by")?,
        passed_rules: row.get("passed_rules")?,
        content_hash: content_hash.filter(|hash| !is_erased(hash)),
        body: row.get("body")?,
        init_flow: init_flow.unwrap_or_default(),
        bulk_id: row.get("bulk_id")?,
        erased_at: None,
        attempts: vec![],
        audit: vec![],
    })
}

fn attempt_from(row: &Row) -> StoreResult<ArchivedAttempt> {
    Ok(ArchivedAttempt {
        attempt_id: row.get("attempt_id")?,
        run: row.get("run")?,
        kind: row.get("kind")?,
        state: row.get("state")?,
        lane: row.get("lane")?,
        idempotency_key: row.get("idempotency_key")?,
        turn_at: row.get("turn_at")?,
        era: row.get("era")?,
        settled_at: row.get("settled_at")?,
        detail: row.get("detail")?,
        reopened: row.get("reopened")?,
        watch_id: row.get("watch_id")?,
    })
}

fn audit_from(row: &Row) -> StoreResult<ArchivedAudit> {
    Ok(ArchivedAudit {
        audit_id: row.get("audit_id")?,
        at: row.get("created_at")?,
        batch_id: row.get("batch_id")?,
        action: row.get("action")?,
        status_before: row.get("status_before")?,
        status_after: row.get("status_after")?,
        actor: row.get("actor")?,
        detail: row.get("detail")?,
    })
}
