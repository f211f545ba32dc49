//! What is known of an id for years after its item was archived: two halves of SHA-256, a day and a status
//! (docs/decisions/0062).

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest, Sha256};
use tollgate_core::archive::{
    ArchiveDay, ArchivedItem, DayExport, DayState, status_code, status_of,
};
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{Admission, Known, KnownAsked, KnownContent, StoreError, StoreResult};

use crate::sql::{Row, Sql, Tx, params};

/// Of an id whose content was erased.
pub(crate) const ERASED: [u8; 16] = [0; 16];

/// The name of an item among the known ones.
pub(crate) fn key(item_type: &ItemType, id: &ItemId) -> [u8; 16] {
    half(&[item_type.as_str().as_bytes(), b"\0", id.as_str().as_bytes()])
}

/// What the index of PostgreSQL has of a key.
pub(crate) fn head(key: &[u8; 16]) -> i64 {
    let mut head = [0; 8];
    head.copy_from_slice(&key[..8]);
    i64::from_be_bytes(head)
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
    "SELECT k.content, k.day, CAST(k.status AS bigint) AS status, d.state, d.file, d.digest,
            d.exported_at
     FROM tg_known(ARRAY[tg_head($1)]) k
     LEFT JOIN archived_day d ON d.item_type = $2 AND d.day = k.day
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

/// What an item is known with.
pub(super) fn content_of(item: &ArchivedItem) -> [u8; 16] {
    item.content_hash.as_deref().map_or(ERASED, content)
}

/// Content and day of those of these items that are known, by their keys.
pub(super) async fn of_page(
    tx: &Tx,
    items: &[ArchivedItem],
) -> StoreResult<HashMap<Vec<u8>, (Vec<u8>, ArchiveDay)>> {
    let keys = items.iter().map(|item| key(&item.item_type, &item.id));
    of_keys(tx, keys.collect()).await
}

/// Which of these ids of one type are known as erased.
pub(crate) async fn erased_in_archive(
    tx: &Tx,
    item_type: &ItemType,
    ids: &[String],
) -> StoreResult<Vec<String>> {
    let key = |id: &String| key(item_type, &ItemId::new(id));
    let known = of_keys(tx, ids.iter().map(key).collect()).await?;
    let is_erased = |id: &&String| {
        let known = known.get(&key(id)[..]);
        known.is_some_and(|(content, _)| *content == ERASED)
    };
    Ok(ids.iter().filter(is_erased).cloned().collect())
}

async fn of_keys(
    tx: &Tx,
    keys: Vec<[u8; 16]>,
) -> StoreResult<HashMap<Vec<u8>, (Vec<u8>, ArchiveDay)>> {
    const OF_KEYS: Sql = Sql::each(
        "WITH RECURSIVE each_one (n) AS
             (SELECT 0 UNION ALL SELECT n + 1 FROM each_one WHERE 16 * (n + 1) < length($1))
         SELECT k.key, k.content, k.day
         FROM each_one CROSS JOIN known_item k ON k.key = substr($1, 16 * each_one.n + 1, 16)",
        "WITH packed AS (SELECT CAST($1 AS bytea) AS bytes)
         SELECT k.key, k.content, k.day
         FROM tg_known(ARRAY(SELECT tg_head(substr(bytes, 16 * n + 1, 8))
              FROM packed, generate_series(0, length(bytes) / 16 - 1) n)) k",
    );
    let rows = tx.rows(OF_KEYS, params![keys.concat()]).await;
    let one = |row: &Row| {
        let known = (row.get("content")?, day_from(row, "day")?);
        Ok((row.get("key")?, known))
    };
    rows.iter().map(one).collect()
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
/// erased. On PostgreSQL up to 25 go into a row (docs/decisions/0071); no other transaction remembers the same ids meanwhile,
/// since a move holds their items and a restore its day.
pub(super) async fn remember(tx: &Tx, items: &[ArchivedItem]) {
    const REMEMBER: Sql = Sql::each(
        "INSERT INTO known_item (key, content, day, status)
         WITH RECURSIVE each_one (n) AS
             (SELECT 0 UNION ALL SELECT n + 1 FROM each_one WHERE 32 * (n + 1) < length($1))
         SELECT substr($1, 32 * n + 1, 16), substr($1, 32 * n + 17, 16), $2, $3
         FROM each_one WHERE true ON CONFLICT (key) DO NOTHING",
        "WITH packed AS (SELECT CAST($1 AS bytea) AS bytes),
         each_one AS MATERIALIZED
             (SELECT n, substr(bytes, 32 * n + 1, 16) AS key, substr(bytes, 32 * n + 9, 24) AS rest,
                     tg_head(substr(bytes, 32 * n + 1, 8)) AS head
              FROM packed, generate_series(0, length(bytes) / 32 - 1) n)
         INSERT INTO known_pack (heads, rests, day, status)
         SELECT array_agg(e.head ORDER BY e.n), string_agg(e.rest, '' ORDER BY e.n),
                CAST($2 AS integer), CAST($3 AS smallint)
         FROM each_one e
         WHERE e.key NOT IN (SELECT k.key
              FROM tg_known(ARRAY(SELECT o.head FROM each_one o)) k)
         GROUP BY e.n / 25",
    );
    let mut alike: BTreeMap<(i64, i64), Vec<u8>> = BTreeMap::new();
    for item in items {
        let packed = alike.entry((item.day().number(), status_code(&item.status)));
        let packed = packed.or_default();
        packed.extend(key(&item.item_type, &item.id));
        packed.extend(content_of(item));
    }
    let rows = alike.into_iter();
    let rows = rows.map(|((day, status), packed)| params![packed, day, status]);
    tx.execute_each(REMEMBER, rows.collect()).await;
}

/// Content of these ids was erased.
pub(super) async fn erase(tx: &Tx, items: &[Item]) -> u64 {
    const ERASE: Sql = Sql::each(
        "UPDATE known_item SET content = $2 WHERE key = $1",
        "UPDATE known_pack p
         SET rests = (SELECT overlay(p.rests PLACING $2 FROM CAST(24 * h.n - 15 AS integer))
              FROM unnest(p.heads) WITH ORDINALITY AS h (head, n)
              WHERE h.head = tg_head($1)
                AND substr(p.rests, CAST(24 * h.n - 23 AS integer), 8) = substr($1, 9))
         WHERE p.heads @> ARRAY[tg_head($1)]
           AND EXISTS (SELECT 1 FROM unnest(p.heads) WITH ORDINALITY AS h (head, n)
              WHERE h.head = tg_head($1)
                AND substr(p.rests, CAST(24 * h.n - 23 AS integer), 8) = substr($1, 9))",
    );
    let key = |item: &Item| params![key(&item.item_type, &item.id).to_vec(), ERASED.to_vec()];
    tx.execute_each(ERASE, items.iter().map(key).collect())
        .await
}

/// How many rows are gone. An id stays while its day is in the database: it would be accepted again beside its archived item.
/// There is no index by day on SQLite: this is asked once a day, and only after years finds anything to do.
pub(super) async fn forget(tx: &Tx, before: ArchiveDay, at_most: u32) -> u64 {
    const FORGET: Sql = Sql::each(
        "DELETE FROM known_item
         WHERE key IN (SELECT key FROM known_item WHERE day < $1
              AND day NOT IN (SELECT day FROM archived_day WHERE state <> 'DROPPED') LIMIT $2)",
        "DELETE FROM known_pack
         WHERE ctid = ANY (ARRAY(SELECT ctid FROM known_pack WHERE day < $1
              AND day NOT IN (SELECT a.day FROM archived_day a WHERE a.state <> 'DROPPED') LIMIT $2))",
    );
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
