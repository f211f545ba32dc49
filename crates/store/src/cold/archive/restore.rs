//! Lines that come back: what a restore may bring, and what an erasure writes over.

use std::collections::BTreeMap;

use tollgate_core::archive::{ArchiveDay, ArchivedItem, DayState};
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{RestoredFor, StoreError, StoreResult};

use super::lines::{ids_json, line_from, line_of, packed};
use super::{days, known};
use crate::cold::erasures::erase_settings;
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
            "{item_type}/{} is already in the store and is not archived; a restore does not change it",
            row.get::<ItemId>("item_id")?
        ))),
    }
}

/// An id that is known must be known as this item: the same day, the same content, and erased only if the line is or is
/// about to be.
pub(super) async fn check_known(
    tx: &Tx,
    items: &[ArchivedItem],
    what_for: RestoredFor,
) -> StoreResult<()> {
    let known = known::of_page(tx, items).await?;
    for item in items {
        let key = known::key(&item.item_type, &item.id);
        let Some((content, day)) = known.get(&key[..]) else {
            continue;
        };
        let is_erased = *content == known::ERASED;
        let is_expected = is_erased && what_for == RestoredFor::Erasing;
        let wrong = if *day != item.day() {
            format!("is known as an item that ended on {day}")
        } else if is_expected || *content == known::content_of(item) {
            continue;
        } else if is_erased {
            "was erased, and the file has its content".to_owned()
        } else {
            "is known with different content".to_owned()
        };
        let name = item.item();
        return Err(StoreError::Invalid(format!("{name} {wrong}")));
    }
    Ok(())
}

pub(super) async fn check_lines(tx: &Tx, items: &[ArchivedItem]) -> StoreResult<()> {
    for item in items {
        is_there(tx, item).await?;
    }
    Ok(())
}

/// What is there stays; another line under the same id is refused.
pub(super) async fn put_lines(tx: &Tx, items: &[ArchivedItem]) -> StoreResult<()> {
    const PUT: &str = "INSERT INTO archived_item (item_type, day, item_id, line)
         VALUES ($1, $2, $3, $4) ON CONFLICT (item_type, day, item_id) DO NOTHING";
    for item in items {
        if !is_there(tx, item).await? {
            let day = item.day().number();
            tx.execute(PUT, params![&item.item_type, day, &item.id, packed(item)?])
                .await;
        }
    }
    Ok(())
}

/// Whether the archive has this line.
async fn is_there(tx: &Tx, item: &ArchivedItem) -> StoreResult<bool> {
    const THERE: &str = "SELECT line FROM archived_item
         WHERE item_type = $1 AND day = $2 AND item_id = $3";
    let key = params![&item.item_type, item.day().number(), &item.id];
    let Some(row) = tx.row(THERE, key).await else {
        return Ok(false);
    };
    if line_from(&row)? == line_of(item)? {
        return Ok(true);
    }
    let name = item.item();
    Err(StoreError::Invalid(format!(
        "{name} is already in the archive with different content; it stays unchanged"
    )))
}

/// Those of these items whose days are in the database. In the transaction that makes their ids known as erased, their
/// exports are outdated: a drop that has compared the lines before finds its day closed.
pub(super) async fn begin_rewrite(
    tx: &Tx,
    mut items: Vec<ArchivedItem>,
) -> StoreResult<Vec<ArchivedItem>> {
    let mut is_dropped = BTreeMap::new();
    for item in &items {
        is_dropped.insert((item.item_type.clone(), item.day()), false);
    }
    for ((item_type, day), is_dropped) in &mut is_dropped {
        *is_dropped = days::held(tx, item_type, *day).await? == Some(DayState::Dropped);
        days::outdate(tx, item_type, *day).await;
    }
    items.retain(|item| !is_dropped[&(item.item_type.clone(), item.day())]);
    let erased = items.iter().filter(|item| item.content_hash.is_none());
    let erased: Vec<Item> = erased.map(ArchivedItem::item).collect();
    known::erase(tx, &erased).await;
    for item in &erased {
        erase_settings(tx, item).await;
    }
    Ok(items)
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
