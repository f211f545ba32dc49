//! How large the store and its archive are, and how old the oldest hot item is.

use tollgate_core::id::ItemType;
use tollgate_core::ports::{ArchiveSizes, StoreResult};

use crate::sql::{Sql, Tx, params};

pub(super) async fn sizes(tx: &Tx, item_types: &[ItemType]) -> StoreResult<ArchiveSizes> {
    const BYTES: Sql = Sql::each(
        "SELECT c.page_count * s.page_size AS store_bytes, 0 AS archive_bytes
         FROM pragma_page_count() c, pragma_page_size() s",
        "SELECT pg_database_size(current_database()) AS store_bytes,
                coalesce((SELECT sum(pg_total_relation_size(inhrelid)) FROM pg_inherits
                 WHERE inhparent = CAST('archived_item' AS regclass)), 0)::bigint AS archive_bytes",
    );
    const OLDEST: Sql = Sql::each(
        "SELECT created_at FROM item_queue INDEXED BY item_queue_created
         WHERE item_type = $1 ORDER BY created_at LIMIT 1",
        "SELECT created_at FROM item_body WHERE item_type = $1 ORDER BY created_at LIMIT 1",
    );
    let bytes = tx.one(BYTES, params![]).await?;
    let mut sizes = ArchiveSizes {
        store_bytes: bytes.get("store_bytes")?,
        archive_bytes: bytes.get("archive_bytes")?,
        ..ArchiveSizes::default()
    };
    for item_type in item_types {
        if let Some(row) = tx.row(OLDEST, params![item_type]).await {
            sizes
                .oldest_hot
                .push((item_type.clone(), row.get("created_at")?));
        }
    }
    Ok(sizes)
}
