//! Lines that come back: what a restore may bring, and what an erasure writes over.

use tollgate_core::archive::{ArchiveDay, ArchivedItem};
use tollgate_core::id::{ItemId, ItemType};
use tollgate_core::ports::{StoreError, StoreResult};

use super::lines::{ids_json, line_from, line_of, packed};
use crate::sql::{Sql, Tx, params};

/// What a restore brings must be of the day that is restored.
pub(super) fn check_page(
    item_type: &ItemType,
    day: ArchiveDay,
    items: &[ArchivedItem],
) -> StoreResult<()> {
    for item in items {
        if item.item_type != *item_type || item.day() != day {
            let (name, its) = (item.item(), item.day());
            return Err(StoreError::Invalid(format!(
                "{name} ended on {its} and cannot be restored as a {item_type} of {day}"
            )));
        }
    }
    Ok(())
}

pub(super) async fn check_hot(
    tx: &Tx,
    item_type: &ItemType,
    items: &[ArchivedItem],
) -> StoreResult<()> {
    const HOT: Sql = Sql::each(
        "SELECT q.item_id FROM json_each($2) w
         CROSS JOIN item_queue q ON q.item_type = $1 AND q.item_id = w.value LIMIT 1",
        "SELECT q.item_id FROM item_queue q WHERE q.item_type = $1
           AND q.item_id IN (SELECT json_array_elements_text(CAST(CAST($2 AS text) AS json)))
         LIMIT 1",
    );
    let ids = ids_json(items.iter().map(|item| &item.id))?;
    match tx.row(HOT, params![item_type, ids]).await {
        None => Ok(()),
        Some(row) => Err(StoreError::Invalid(format!(
            "{item_type}/{} is in the store already and not archived; a restore changes nothing of it",
            row.get::<ItemId>("item_id")?
        ))),
    }
}

/// What is there stays; another line under the same id is refused.
pub(super) async fn put_lines(tx: &Tx, items: &[ArchivedItem]) -> StoreResult<()> {
    const PUT: &str = "INSERT INTO archived_item (item_type, day, item_id, line)
         VALUES ($1, $2, $3, $4) ON CONFLICT (item_type, day, item_id) DO NOTHING";
    const THERE: &str = "SELECT line FROM archived_item
         WHERE item_type = $1 AND day = $2 AND item_id = $3";
    for item in items {
        let key = params![&item.item_type, item.day().number(), &item.id];
        let Some(row) = tx.row(THERE, key).await else {
            let day = item.day().number();
            tx.execute(PUT, params![&item.item_type, day, &item.id, packed(item)?])
                .await;
            continue;
        };
        if line_from(&row)? != line_of(item)? {
            let name = item.item();
            return Err(StoreError::Invalid(format!(
                "{name} is in the archive already, with another line; it stays as it is"
            )));
        }
    }
    Ok(())
}

pub(super) async fn rewrite_lines(tx: &Tx, items: &[ArchivedItem]) -> StoreResult<u64> {
    const REWRITE: &str = "UPDATE archived_item SET line = $4
         WHERE item_type = $1 AND day = $2 AND item_id = $3";
    let mut rows = vec![];
    for item in items {
        let day = item.day().number();
        rows.push(params![&item.item_type, day, &item.id, packed(item)?]);
    }
    Ok(tx.execute_each(REWRITE, rows).await)
}
