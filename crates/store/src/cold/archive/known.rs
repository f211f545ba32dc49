//! What is known of an id for years after its item was archived: two halves of SHA-256, a day and a status
//! (docs/decisions/0062).

use sha2::{Digest, Sha256};
use tollgate_core::archive::{
    ArchiveDay, ArchivedItem, DayExport, DayState, status_code, status_of,
};
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{Admission, Known, KnownAsked, KnownContent, StoreError, StoreResult};

use crate::sql::{Params, Row, Sql, Tx, params};

/// Of an id whose content was erased.
pub(crate) const ERASED: [u8; 16] = [0; 16];

/// The name of an item among the known ones.
pub(crate) fn key(item_type: &ItemType, id: &ItemId) -> [u8; 16] {
    half(&[item_type.as_str().as_bytes(), b"\0", id.as_str().as_bytes()])
}

/// The content that it was taken in with.
pub(crate) fn content(content_hash: &str) -> [u8; 16] {
    half(&[content_hash.as_bytes()])
}

fn half(parts: &[&[u8]]) -> [u8; 16] {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part);
    }
    let mut half = [0; 16];
    half.copy_from_slice(&digest.finalize()[..16]);
    half
}

/// Whether what is kept is the content that somebody asks about.
pub(crate) fn compared(kept: &[u8], content_hash: &str) -> KnownContent {
    if kept == ERASED {
        KnownContent::Erased
    } else if kept == content(content_hash) {
        KnownContent::Same
    } else {
        KnownContent::Other
    }
}

/// The answer for an id that somebody wants to take again.
pub(crate) fn admission(kept: &[u8], content_hash: &str) -> Admission {
    match compared(kept, content_hash) {
        KnownContent::Same => Admission::Archived,
        KnownContent::Other => Admission::Conflict,
        KnownContent::Erased => Admission::Erased,
    }
}

/// By what it is asked for: one key at a time, since a page of an API asks for one and intake has a text of its own.
const KNOWN: Sql = Sql::each(
    "SELECT k.content, k.day, k.status, d.state, d.file, d.digest, d.exported_at
     FROM known_item k LEFT JOIN archived_day d ON d.item_type = $2 AND d.day = k.day
     WHERE k.key = $1",
    "SELECT uuid_send(k.content) AS content, k.day, CAST(k.status AS bigint) AS status, d.state,
            d.file, d.digest, d.exported_at
     FROM known_item k LEFT JOIN archived_day d ON d.item_type = $2 AND d.day = k.day
     WHERE k.key = $1",
);

pub(super) async fn known(tx: &Tx, asked: &KnownAsked) -> StoreResult<Option<Known>> {
    let key = key(&asked.item.item_type, &asked.item.id).to_vec();
    let found = tx.row(KNOWN, params![key, &asked.item.item_type]).await;
    found
        .map(|row| known_from(&row, &asked.content_hash))
        .transpose()
}

fn known_from(row: &Row, content_hash: &str) -> StoreResult<Known> {
    let kept: Vec<u8> = row.get("content")?;
    let state: Option<String> = row.get("state")?;
    Ok(Known {
        day: day_from(row, "day")?,
        status: status_of(row.get("status")?).to_owned(),
        content: compared(&kept, content_hash),
        // Without a day its items are nowhere in this database.
        state: state
            .as_deref()
            .and_then(DayState::parse)
            .unwrap_or(DayState::Dropped),
        export: export_from(row)?,
    })
}

pub(super) fn day_from(row: &Row, column: &str) -> StoreResult<ArchiveDay> {
    let number = row.get(column)?;
    let unreal = || StoreError::Bug(format!("the column {column} holds no day: {number}"));
    ArchiveDay::from_number(number).ok_or_else(unreal)
}

pub(super) fn export_from(row: &Row) -> StoreResult<Option<DayExport>> {
    let file: Option<String> = row.get("file")?;
    let (Some(file), Some(digest), Some(at)) = (file, row.get("digest")?, row.get("exported_at")?)
    else {
        return Ok(None);
    };
    Ok(Some(DayExport { file, digest, at }))
}

/// Remembers ids. One that is known already, as after a crash or in a restore, stays as it is: what was erased stays
/// erased.
pub(super) async fn remember(tx: &Tx, items: &[ArchivedItem]) {
    const REMEMBER: &str = "INSERT INTO known_item (key, content, day, status)
         VALUES ($1, $2, $3, $4) ON CONFLICT (key) DO NOTHING";
    let rows = items.iter().map(row_of).collect();
    tx.execute_each(REMEMBER, rows).await;
}

fn row_of(item: &ArchivedItem) -> Params {
    let content = item.content_hash.as_deref().map_or(ERASED, content);
    let key = key(&item.item_type, &item.id);
    let (day, status) = (item.day().number(), status_code(&item.status));
    params![key.to_vec(), content.to_vec(), day, status]
}

/// Content of these ids was erased.
pub(super) async fn erase(tx: &Tx, items: &[Item]) -> u64 {
    const ERASE: &str = "UPDATE known_item SET content = $2 WHERE key = $1";
    let key = |item: &Item| params![key(&item.item_type, &item.id).to_vec(), ERASED.to_vec()];
    tx.execute_each(ERASE, items.iter().map(key).collect())
        .await
}

/// There is no index by day on SQLite: this is asked once a day, and only after years finds anything to do.
pub(super) async fn forget(tx: &Tx, before: ArchiveDay, at_most: u32) -> u64 {
    const FORGET: &str = "DELETE FROM known_item
         WHERE key IN (SELECT key FROM known_item WHERE day < $1 LIMIT $2)";
    tx.execute(FORGET, params![before.number(), at_most]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payment_42_and_invoice_42_have_keys_of_their_own() {
        let id = ItemId::new("42");
        let of = |kind: &str| key(&ItemType::new(kind), &id);
        assert_ne!(of("PAYMENT"), of("INVOICE"));
        // The NUL between them keeps type and id apart.
        assert_ne!(
            key(&ItemType::new("A"), &ItemId::new("B1")),
            key(&ItemType::new("AB"), &ItemId::new("1"))
        );
    }

    #[test]
    fn content_is_compared_and_an_erased_one_is_neither() {
        assert_eq!(compared(&content("abc"), "abc"), KnownContent::Same);
        assert_eq!(compared(&content("abc"), "abd"), KnownContent::Other);
        assert_eq!(compared(&ERASED, "abc"), KnownContent::Erased);
    }
}
