//! Control totals and the audit log.

use async_trait::async_trait;
use tollgate_core::Timestamp;
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{
    Accounts, AuditEntry, AuditWanted, NewAudit, Page, StoreResult, Total, rows_needed,
};

use super::audit::audit;
use crate::audit::Entry;
use crate::cold::audit::log;
use crate::cold::items::held::held_apart;
use crate::sql::{Row, Sql, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;

#[async_trait]
impl<D: Database> Accounts for StoreOn<D> {
    async fn totals(
        &self,
        item_type: &ItemType,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<Vec<Total>> {
        let wanted = params![item_type, from, to];
        self.read(move |tx| async move {
            let rows = tx.rows(TOTALS, wanted.clone()).await;
            let totals = rows.iter().map(total_from).collect::<StoreResult<_>>()?;
            held_apart(&tx, wanted, totals).await
        })
        .await
    }

    async fn depths(&self, item_type: &ItemType) -> StoreResult<Vec<(QueueStatus, u64)>> {
        let wanted = params![item_type];
        self.read(move |tx| async move {
            let row = tx.one(DEPTHS, wanted).await?;
            // Without a lane PostgreSQL has nothing to sum up.
            let depth = |status: QueueStatus| {
                let count: Option<u64> = row.get(&status.as_str().to_lowercase())?;
                Ok((status, count.unwrap_or(0)))
            };
            QueueStatus::UNENDED.into_iter().map(depth).collect()
        })
        .await
    }

    async fn write_audit(&self, entry: NewAudit) -> StoreResult<()> {
        self.write_alone(Urgency::Normal, move |tx| async move {
            let entry = Entry {
                item: entry.item.as_ref(),
                action: &entry.action,
                actor: &entry.actor,
                detail: &entry.detail,
                ..Entry::default()
            };
            audit(&tx, &entry).await;
            Ok(())
        })
        .await
    }

    async fn audit_log(&self, wanted: AuditWanted) -> StoreResult<Page<AuditEntry, i64>> {
        let (asked, read) = (
            rows_needed(wanted.limit, wanted.is_filtered()),
            wanted.clone(),
        );
        let hot = self.read(move |tx| async move {
            let rows = log::entries(&tx, &read, asked).await?;
            rows.iter().map(entry_from).collect::<StoreResult<_>>()
        });
        let hot = hot.await?;
        // Read last: an item that moves meanwhile is seen twice, and not missed. Its entries keep their numbers.
        let archived = match &wanted.item {
            Some(item) => self.remembered(item).await?.and_then(|view| view.archived),
            None => None,
        };
        let archived = archived.map(|from| from.audit).unwrap_or_default();
        let entries = log::with_archived(&wanted, hot, archived, asked);
        Ok(wanted.page(entries, asked))
    }
}

/// One statement: a request that becomes a record meanwhile, or a record that is archived, is counted once. SQLite would take the
/// index of another question; it keeps no statistics.
const TOTALS: Sql = Sql::each(
    "SELECT status, currency, sum(n) AS n, sum(amount) AS amount FROM (
         SELECT status, currency, count(*) AS n, sum(amount_minor) AS amount
         FROM item_queue INDEXED BY item_queue_created
         WHERE item_type = $1 AND created_at >= $2 AND created_at < $3
         GROUP BY status, currency
         UNION ALL
         SELECT CASE state WHEN 'WAITING' THEN 'INITIALIZING' ELSE state END, currency,
                count(*), sum(amount_minor)
         FROM request INDEXED BY request_accepted
         WHERE item_type = $1 AND state <> 'REFUSED'
           AND accepted_at >= $2 AND accepted_at < $3
         GROUP BY 1, 2
         UNION ALL
         SELECT 'INITIALIZING', 'XXX', lines - accepted - duplicate - rejected, 0
         FROM bulk INDEXED BY bulk_running
         WHERE item_type = $1 AND state = 'RUNNING'
           AND started_at >= $2 AND started_at < $3
         UNION ALL
         SELECT status, currency, items, amount_minor FROM archived_sum
         WHERE item_type = $1 AND quarter >= $2 AND quarter < $3)
     GROUP BY status, currency ORDER BY status, currency",
    "SELECT status, currency, sum(n)::bigint AS n, sum(amount)::bigint AS amount FROM (
         SELECT status, currency, count(*) AS n, sum(amount_minor) AS amount
         FROM item_queue
         WHERE item_type = $1 AND created_at >= $2 AND created_at < $3
         GROUP BY status, currency
         UNION ALL
         SELECT CASE state WHEN 'WAITING' THEN 'INITIALIZING' ELSE state END, currency,
                count(*), sum(amount_minor)
         FROM request
         WHERE item_type = $1 AND state <> 'REFUSED'
           AND accepted_at >= $2 AND accepted_at < $3
         GROUP BY 1, 2
         UNION ALL
         SELECT 'INITIALIZING', 'XXX', lines - accepted - duplicate - rejected, 0
         FROM bulk
         WHERE item_type = $1 AND state = 'RUNNING'
           AND started_at >= $2 AND started_at < $3
         UNION ALL
         SELECT status, currency, items, amount_minor FROM archived_sum
         WHERE item_type = $1 AND quarter >= $2 AND quarter < $3) t
     GROUP BY status, currency ORDER BY status, currency",
);

/// One partial index per line. PostgreSQL goes lane by lane, as the partial indexes do, which
/// SQLite does by itself; the dead have one by type. What is ready is counted in an index alone, as what is open without
/// what is under way.
const DEPTHS: Sql = Sql::each(
    "SELECT
         (SELECT count(*) FROM item_queue
          WHERE item_type = $1 AND queue_status = 'READY') AS ready,
         (SELECT count(*) FROM item_queue
          WHERE item_type = $1 AND queue_status = 'CLAIMED') AS claimed,
         (SELECT count(*) FROM item_queue
          WHERE item_type = $1 AND queue_status = 'DISPATCHED'
            AND finished_at IS NULL) AS dispatched,
         (SELECT count(*) FROM item_queue
          WHERE item_type = $1 AND queue_status = 'HELD') AS held,
         (SELECT count(*) FROM item_queue
          WHERE item_type = $1 AND queue_status = 'DEAD') AS dead",
    "SELECT sum(d.open - u.claimed - u.dispatched)::bigint AS ready, sum(u.claimed)::bigint AS claimed,
            sum(u.dispatched)::bigint AS dispatched, sum(d.held)::bigint AS held,
         (SELECT count(*) FROM item_queue
          WHERE item_type = $1 AND queue_part = 'D') AS dead
     FROM lane_plan p CROSS JOIN LATERAL (SELECT
         (SELECT count(*) FROM item_queue
          WHERE lane = p.lane AND item_type = $1 AND queue_part = 'O') AS open,
         (SELECT count(*) FROM item_queue
          WHERE lane = p.lane AND item_type = $1 AND queue_part = 'H') AS held) d
     CROSS JOIN LATERAL (SELECT
         count(*) FILTER (WHERE queue_status = 'CLAIMED') AS claimed,
         count(*) FILTER (WHERE queue_status = 'DISPATCHED') AS dispatched
         FROM under_way WHERE lane = p.lane AND item_type = $1) u",
);

fn total_from(row: &Row) -> StoreResult<Total> {
    Ok(Total {
        status: row.get("status")?,
        currency: row.get("currency")?,
        count: row.get("n")?,
        amount_minor: row.get("amount")?,
    })
}

fn entry_from(row: &Row) -> StoreResult<AuditEntry> {
    let item_type: Option<ItemType> = row.get("item_type")?;
    let item_id: Option<ItemId> = row.get("item_id")?;
    Ok(AuditEntry {
        id: row.get("audit_id")?,
        at: row.get("created_at")?,
        batch: row.get("batch_id")?,
        item: item_type
            .zip(item_id)
            .map(|(kind, id)| Item::new(&kind, &id)),
        action: row.get("action")?,
        status_before: row.get("status_before")?,
        status_after: row.get("status_after")?,
        actor: row.get("actor")?,
        detail: row.get("detail")?,
    })
}
