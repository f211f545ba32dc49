//! How large the store and its archive are, and how old the oldest hot item is.

use tollgate_core::id::ItemType;
use tollgate_core::ports::{ArchiveSizes, StoreResult};

use crate::sql::{Row, Sql, Tx, params};

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

/// Partitions count for their table.
pub(super) async fn parts(tx: &Tx) -> StoreResult<Vec<(String, u64)>> {
    const PARTS: Sql = Sql::each(
        "SELECT 'database file' AS name, c.page_count * s.page_size AS bytes
         FROM pragma_page_count() c, pragma_page_size() s
         UNION ALL
         SELECT 'of the database file: free', f.freelist_count * s.page_size
         FROM pragma_freelist_count() f, pragma_page_size() s",
        "SELECT CAST(coalesce(p.relname, c.relname) AS text) AS name,
                sum(pg_total_relation_size(c.oid))::bigint AS bytes
         FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
              LEFT JOIN pg_class p ON p.oid = i.inhparent
         WHERE c.relkind = 'r' AND c.relnamespace = CAST(current_schema() AS regnamespace)
         GROUP BY 1",
    );
    let rows = tx.rows(PARTS, params![]).await;
    let part = |row: &Row| Ok((row.get("name")?, row.get("bytes")?));
    rows.iter().map(part).collect()
}
