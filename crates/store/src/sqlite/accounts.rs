//! Control totals and the audit log.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use tollgate_core::Timestamp;
use tollgate_core::id::{BatchId, Item, ItemId, ItemType};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{
    Accounts, AuditEntry, AuditWanted, NewAudit, Page, StoreResult, Total, rows_needed,
};

use super::SqliteStore;
use super::value::Us;
use crate::audit::Entry;
use crate::urgency::Urgency;

#[async_trait]
impl Accounts for SqliteStore {
    async fn totals(
        &self,
        item_type: &ItemType,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<Vec<Total>> {
        let item_type = item_type.clone();
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT status, currency, sum(n), sum(amount) FROM (
                     SELECT status, currency, count(*) AS n, sum(amount_minor) AS amount FROM record
                     WHERE item_type = ?1 AND created_at >= ?2 AND created_at < ?3
                     GROUP BY status, currency
                     UNION ALL
                     SELECT CASE state WHEN 'WAITING' THEN 'INITIALIZING' ELSE state END, currency,
                            count(*), sum(amount_minor)
                     FROM request INDEXED BY request_accepted
                     WHERE item_type = ?1 AND state <> 'REFUSED'
                       AND accepted_at >= ?2 AND accepted_at < ?3
                     GROUP BY 1, 2
                     UNION ALL
                     SELECT 'INITIALIZING', 'XXX', lines - accepted - duplicate - rejected, 0
                     FROM bulk INDEXED BY bulk_running
                     WHERE item_type = ?1 AND state = 'RUNNING'
                       AND started_at >= ?2 AND started_at < ?3)
                 GROUP BY status, currency ORDER BY status, currency",
            )?
            .query_map(params![item_type.as_str(), Us(from), Us(to)], |row| {
                Ok(Total {
                    status: row.get(0)?,
                    currency: row.get(1)?,
                    count: row.get::<_, i64>(2)?.unsigned_abs(),
                    amount_minor: row.get(3)?,
                })
            })?
            .collect()
        };
        self.readers.read(read).await
    }

    async fn depths(&self, item_type: &ItemType) -> StoreResult<Vec<(QueueStatus, u64)>> {
        /// One partial index per line.
        const DEPTHS: &str = "SELECT
             (SELECT count(*) FROM item_queue WHERE item_type = ?1 AND queue_status = 'READY'),
             (SELECT count(*) FROM item_queue WHERE item_type = ?1 AND queue_status = 'CLAIMED'),
             (SELECT count(*) FROM item_queue
              WHERE item_type = ?1 AND queue_status = 'DISPATCHED' AND finished_at IS NULL),
             (SELECT count(*) FROM item_queue WHERE item_type = ?1 AND queue_status = 'HELD'),
             (SELECT count(*) FROM item_queue WHERE item_type = ?1 AND queue_status = 'DEAD')";
        let item_type = item_type.clone();
        let read = move |c: &Connection| {
            c.prepare_cached(DEPTHS)?
                .query_row([item_type.as_str()], |row| {
                    let depths = QueueStatus::UNENDED.into_iter().enumerate();
                    depths
                        .map(|(n, status)| Ok((status, row.get::<_, i64>(n)?.unsigned_abs())))
                        .collect()
                })
        };
        self.readers.read(read).await
    }

    async fn write_audit(&self, entry: NewAudit) -> StoreResult<()> {
        let clock = self.clock.clone();
        let write = move |c: &Connection| {
            let entry = Entry {
                item: entry.item.as_ref(),
                action: &entry.action,
                actor: &entry.actor,
                detail: &entry.detail,
                ..Entry::default()
            };
            audit(c, Us(clock.now()), &entry)
        };
        self.writer.write(Urgency::Normal, write).await
    }

    async fn audit_log(&self, wanted: AuditWanted) -> StoreResult<Page<AuditEntry, i64>> {
        let read = move |c: &Connection| {
            let asked = rows_needed(wanted.limit, wanted.is_filtered());
            Ok(wanted.page(entries(c, &wanted, asked)?, asked))
        };
        self.readers.read(read).await
    }
}

fn entries(c: &Connection, wanted: &AuditWanted, asked: u32) -> rusqlite::Result<Vec<AuditEntry>> {
    const OF_ITEM: &str = "SELECT created_at, item_type, item_id, action, status_before,
             status_after, actor, detail, audit_id, batch_id
         FROM audit_log WHERE item_type = ?1 AND item_id = ?2 AND audit_id < ?3
         ORDER BY audit_id DESC LIMIT ?4";
    const OF_ACTOR: &str = "SELECT created_at, item_type, item_id, action, status_before,
             status_after, actor, detail, audit_id, batch_id
         FROM audit_log WHERE actor = ?1 AND audit_id < ?2 ORDER BY audit_id DESC LIMIT ?3";
    const OF_ALL: &str = "SELECT created_at, item_type, item_id, action, status_before,
             status_after, actor, detail, audit_id, batch_id
         FROM audit_log WHERE audit_id < ?1 ORDER BY audit_id DESC LIMIT ?2";
    let before = wanted.after.unwrap_or(i64::MAX);
    match (&wanted.item, &wanted.actor) {
        (Some(item), _) => {
            let key = params![item.item_type.as_str(), item.id.as_str(), before, asked];
            c.prepare_cached(OF_ITEM)?
                .query_map(key, from_row)?
                .collect()
        }
        (None, Some(actor)) => c
            .prepare_cached(OF_ACTOR)?
            .query_map(params![actor, before, asked], from_row)?
            .collect(),
        (None, None) => c
            .prepare_cached(OF_ALL)?
            .query_map(params![before, asked], from_row)?
            .collect(),
    }
}

pub(super) fn audit(c: &Connection, now: Us, entry: &Entry<'_>) -> rusqlite::Result<()> {
    c.prepare_cached(
        "INSERT INTO audit_log (batch_id, item_type, item_id, action, status_before,
                                status_after, actor, detail, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        entry.batch,
        entry.item.map(|i| i.item_type.as_str()),
        entry.item.map(|i| i.id.as_str()),
        entry.action,
        entry.before,
        entry.after,
        entry.actor,
        entry.detail,
        now,
    ])?;
    Ok(())
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<AuditEntry> {
    let item_type: Option<String> = row.get(1)?;
    let item_id: Option<String> = row.get(2)?;
    Ok(AuditEntry {
        id: row.get(8)?,
        at: row.get::<_, Us>(0)?.0,
        batch: row.get::<_, Option<String>>(9)?.map(BatchId::new),
        item: item_type
            .zip(item_id)
            .map(|(kind, id)| Item::new(&ItemType::new(kind), &ItemId::new(id))),
        action: row.get(3)?,
        status_before: row.get(4)?,
        status_after: row.get(5)?,
        actor: row.get(6)?,
        detail: row.get(7)?,
    })
}
