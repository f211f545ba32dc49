//! Control totals and the audit log.

use async_trait::async_trait;
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use tollgate_core::Timestamp;
use tollgate_core::id::{BatchId, Item, ItemId, ItemType};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{
    Accounts, AuditEntry, AuditWanted, NewAudit, Page, StoreResult, Total, rows_needed,
};

use super::PostgresStore;
use super::run::{Params, all, execute};
use super::value::{Us, storable};
use crate::audit::Entry;
use crate::urgency::Urgency;

#[async_trait]
impl Accounts for PostgresStore {
    async fn totals(
        &self,
        item_type: &ItemType,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<Vec<Total>> {
        /// One statement: a request that becomes a record meanwhile is counted once.
        const TOTALS: &str = "SELECT status, currency, sum(n)::bigint, sum(amount)::bigint FROM (
                 SELECT status, currency, count(*) AS n, sum(amount_minor) AS amount FROM record
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
                   AND started_at >= $2 AND started_at < $3) t
             GROUP BY status, currency ORDER BY status, currency";
        let item_type = item_type.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let kind = item_type.as_str();
                    let rows = all(c, TOTALS, &[&kind, &Us(from), &Us(to)]).await?;
                    Ok(rows.iter().map(total_from).collect())
                })
            })
            .await
    }

    async fn depths(&self, item_type: &ItemType) -> StoreResult<Vec<(QueueStatus, u64)>> {
        /// Lane by lane, as the partial indexes go; the dead have one by type.
        const DEPTHS: &str = "SELECT sum(d.ready)::bigint, sum(d.claimed)::bigint,
                 sum(d.running)::bigint, sum(d.held)::bigint,
                 (SELECT count(*) FROM item_queue WHERE item_type = $1 AND queue_status = 'DEAD')
             FROM lane_plan p CROSS JOIN LATERAL (SELECT
                 (SELECT count(*) FROM item_queue
                  WHERE lane = p.lane AND item_type = $1 AND queue_status = 'READY') AS ready,
                 (SELECT count(*) FROM item_queue
                  WHERE lane = p.lane AND item_type = $1 AND queue_status = 'CLAIMED') AS claimed,
                 (SELECT count(*) FROM item_queue
                  WHERE lane = p.lane AND item_type = $1 AND queue_status = 'DISPATCHED'
                    AND finished_at IS NULL) AS running,
                 (SELECT count(*) FROM item_queue
                  WHERE lane = p.lane AND item_type = $1 AND queue_status = 'HELD') AS held) d";
        let item_type = item_type.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let rows = all(c, DEPTHS, &[&item_type.as_str()]).await?;
                    // Without a lane there is nothing to sum up.
                    let count = |n| rows.first().and_then(|row| row.get::<_, Option<i64>>(n));
                    let depths = QueueStatus::UNENDED.into_iter().enumerate();
                    Ok(depths
                        .map(|(n, status)| (status, count(n).unwrap_or(0).unsigned_abs()))
                        .collect())
                })
            })
            .await
    }

    async fn write_audit(&self, entry: NewAudit) -> StoreResult<()> {
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let entry = Entry {
                        item: entry.item.as_ref(),
                        action: &entry.action,
                        actor: &entry.actor,
                        detail: &entry.detail,
                        ..Entry::default()
                    };
                    audit(c, &entry).await
                })
            })
            .await
    }

    async fn audit_log(&self, wanted: AuditWanted) -> StoreResult<Page<AuditEntry, i64>> {
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let asked = rows_needed(wanted.limit, wanted.is_filtered());
                    let rows = entries(c, &wanted, asked).await?;
                    Ok(wanted.page(rows.iter().map(entry_from).collect(), asked))
                })
            })
            .await
    }
}

async fn entries(
    c: &impl GenericClient,
    wanted: &AuditWanted,
    asked: u32,
) -> StoreResult<Vec<Row>> {
    const OF_ITEM: &str = "SELECT created_at, item_type, item_id, action, status_before,
             status_after, actor, detail, audit_id, batch_id
         FROM audit_log WHERE item_type = $1 AND item_id = $2 AND audit_id < $3
         ORDER BY audit_id DESC LIMIT $4";
    const OF_ACTOR: &str = "SELECT created_at, item_type, item_id, action, status_before,
             status_after, actor, detail, audit_id, batch_id
         FROM audit_log WHERE actor = $1 AND audit_id < $2 ORDER BY audit_id DESC LIMIT $3";
    const OF_ALL: &str = "SELECT created_at, item_type, item_id, action, status_before,
             status_after, actor, detail, audit_id, batch_id
         FROM audit_log WHERE audit_id < $1 ORDER BY audit_id DESC LIMIT $2";
    let (before, asked) = (wanted.after.unwrap_or(i64::MAX), i64::from(asked));
    match (&wanted.item, &wanted.actor) {
        (Some(item), _) => {
            let (kind, id) = (item.item_type.as_str(), item.id.as_str());
            all(c, OF_ITEM, &[&kind, &id, &before, &asked]).await
        }
        (None, Some(actor)) => all(c, OF_ACTOR, &[&&*storable(actor), &before, &asked]).await,
        (None, None) => all(c, OF_ALL, &[&before, &asked]).await,
    }
}

pub(super) async fn audit(c: &impl GenericClient, entry: &Entry<'_>) -> StoreResult<()> {
    const AUDIT: &str = "INSERT INTO audit_log (batch_id, item_type, item_id, action,
             status_before, status_after, actor, detail, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, tg_now())";
    let item_type = entry.item.map(|i| i.item_type.as_str());
    let item_id = entry.item.map(|i| i.id.as_str());
    let (actor, detail) = (storable(entry.actor), storable(entry.detail));
    let params: Params<'_> = &[
        &entry.batch,
        &item_type,
        &item_id,
        &entry.action,
        &entry.before,
        &entry.after,
        &&*actor,
        &&*detail,
    ];
    execute(c, AUDIT, params).await.map(drop)
}

fn total_from(row: &Row) -> Total {
    Total {
        status: row.get(0),
        currency: row.get(1),
        count: row.get::<_, i64>(2).unsigned_abs(),
        amount_minor: row.get(3),
    }
}

fn entry_from(row: &Row) -> AuditEntry {
    let item_type: Option<String> = row.get(1);
    let item_id: Option<String> = row.get(2);
    AuditEntry {
        id: row.get(8),
        at: row.get::<_, Us>(0).0,
        batch: row.get::<_, Option<String>>(9).map(BatchId::new),
        item: item_type
            .zip(item_id)
            .map(|(kind, id)| Item::new(&ItemType::new(kind), &ItemId::new(id))),
        action: row.get(3),
        status_before: row.get(4),
        status_after: row.get(5),
        actor: row.get(6),
        detail: row.get(7),
    }
}
