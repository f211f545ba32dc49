//! What happened to the items of a bulk since it was taken in, and whether the same file came before.

use tollgate_core::Timestamp;
use tollgate_core::id::{BulkId, ItemType};
use tollgate_core::ports::{BulkBucket, BulkSince, StoreResult};

use crate::sql::{Row, Sql, Tx, params};

pub(super) async fn since(
    tx: &Tx,
    item_type: &ItemType,
    bulk: &BulkId,
    at_most: u32,
) -> StoreResult<BulkSince> {
    const SINCE: Sql = Sql::each(
        "SELECT q.status, q.queue_status = 'HELD' AS held, q.currency, count(*) AS n,
                sum(q.amount_minor) AS amount
         FROM (SELECT item_id AS its FROM item_body INDEXED BY item_body_bulk
               WHERE item_type = $1 AND bulk_id = $2 ORDER BY item_id LIMIT $3)
         CROSS JOIN item_queue q ON q.item_type = $1 AND q.item_id = its
         GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        "SELECT q.status, q.queue_status = 'HELD' AS held, q.currency, count(*) AS n,
                sum(q.amount_minor)::bigint AS amount
         FROM (SELECT item_id FROM item_body
               WHERE item_type = $1 AND bulk_id = $2 ORDER BY item_id LIMIT $3) b
         CROSS JOIN LATERAL (SELECT status, queue_status, currency, amount_minor FROM item_queue
               WHERE item_type = $1 AND item_id = b.item_id LIMIT 1) q
         GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
    );
    const ARCHIVED: Sql = Sql::each(
        "SELECT status, 0 AS held, currency, sum(items) AS n, sum(amount_minor) AS amount
         FROM archived_sum INDEXED BY archived_sum_bulk
         WHERE item_type = $1 AND bulk_id = $2 AND bulk_id <> ''
         GROUP BY status, currency ORDER BY status, currency",
        "SELECT status, false AS held, currency, sum(items)::bigint AS n,
                sum(amount_minor)::bigint AS amount
         FROM archived_sum WHERE item_type = $1 AND bulk_id = $2 AND bulk_id <> ''
         GROUP BY status, currency ORDER BY status, currency",
    );
    let rows = tx.rows(SINCE, params![item_type, bulk, at_most]).await;
    let bucket = |row: &Row| {
        Ok(BulkBucket {
            status: row.get("status")?,
            held: row.get("held")?,
            currency: row.get("currency")?,
            count: row.get("n")?,
            amount_minor: row.get("amount")?,
        })
    };
    let mut buckets = rows.iter().map(bucket).collect::<StoreResult<Vec<_>>>()?;
    for row in tx.rows(ARCHIVED, params![item_type, bulk]).await {
        let archived = bucket(&row)?;
        let same = |it: &&mut BulkBucket| {
            !it.held && it.status == archived.status && it.currency == archived.currency
        };
        match buckets.iter_mut().find(same) {
            Some(known) => {
                known.count += archived.count;
                known.amount_minor += archived.amount_minor;
            }
            None => buckets.push(archived),
        }
    }
    Ok(BulkSince {
        buckets,
        same_before: same_before(tx, item_type, bulk).await?,
    })
}

/// The first of them.
async fn same_before(
    tx: &Tx,
    item_type: &ItemType,
    bulk: &BulkId,
) -> StoreResult<Option<(BulkId, Timestamp)>> {
    const OWN: &str = "SELECT digest, started_at FROM bulk
         WHERE bulk_id = $1 AND digest IS NOT NULL AND started_at IS NOT NULL";
    const SAME: Sql = Sql::each(
        "SELECT bulk_id, started_at FROM bulk INDEXED BY bulk_digest
         WHERE item_type = $1 AND digest = $2 AND started_at < $3 AND digest IS NOT NULL
           AND state <> 'DISCARDED'
         ORDER BY started_at, bulk_id LIMIT 1",
        "SELECT bulk_id, started_at FROM bulk
         WHERE item_type = $1 AND digest = $2 AND started_at < $3 AND state <> 'DISCARDED'
         ORDER BY started_at, bulk_id LIMIT 1",
    );
    let Some(own) = tx.row(OWN, params![bulk]).await else {
        return Ok(None);
    };
    let (digest, since): (String, Timestamp) = (own.get("digest")?, own.get("started_at")?);
    let Some(row) = tx.row(SAME, params![item_type, digest, since]).await else {
        return Ok(None);
    };
    Ok(Some((row.get("bulk_id")?, row.get("started_at")?)))
}
