//! What guards need to know about the items that were taken in before. The writer is alone, so
//! what is counted here holds until it has written.

use rusqlite::{Connection, Row, params};
use tollgate_core::Timestamp;
use tollgate_core::guard::{DuplicateQuestion, Tally, TotalQuestion, quarter_of};
use tollgate_core::id::ItemType;
use tollgate_core::ports::NewItem;

use crate::sqlite::connection::value::Us;

/// A sum of amounts may be larger than a number here can be, so millions and the rest are summed
/// apart.
const MILLION: i128 = 1_000_000;

/// The questions of a batch, answered.
pub(super) fn tally(
    c: &Connection,
    item_type: &ItemType,
    items: &[NewItem],
    now: Timestamp,
) -> rusqlite::Result<Tally> {
    let mut tally = Tally::new(items, now);
    for (asked, last) in tally.duplicates_mut() {
        *last = last_duplicate(c, item_type, asked)?;
    }
    for (asked, total) in tally.totals_mut() {
        *total = total_of(c, item_type, asked)?;
    }
    Ok(tally)
}

fn last_duplicate(
    c: &Connection,
    item_type: &ItemType,
    asked: &DuplicateQuestion,
) -> rusqlite::Result<Option<Timestamp>> {
    let last: Option<Us> = c
        .prepare_cached(
            "SELECT max(created_at) FROM item_queue INDEXED BY item_queue_twin
             WHERE item_type = ?1 AND duplicate_key = ?2
               AND status NOT IN (SELECT value FROM json_each(?3))",
        )?
        .query_row(
            params![item_type.as_str(), asked.key, json(&asked.uncounted)?],
            |row| row.get(0),
        )?;
    Ok(last.map(|us| us.0))
}

/// All that was taken in, less what was withdrawn since: flat, however much an owner pays a day.
fn total_of(c: &Connection, item_type: &ItemType, asked: &TotalQuestion) -> rusqlite::Result<i64> {
    let taken_in = sum(c
        .prepare_cached(
            "SELECT coalesce(sum(amount_minor / 1000000), 0),
                    coalesce(sum(amount_minor % 1000000), 0)
             FROM owner_total
             WHERE item_type = ?1 AND owner = ?2 AND currency = ?3
               AND quarter >= ?4 AND quarter < ?5",
        )?
        .query_row(
            params![
                item_type.as_str(),
                asked.owner,
                asked.currency,
                Us(asked.from),
                Us(asked.to)
            ],
            two,
        )?);
    // Left alone, the planner would take the primary key, and read every item there is.
    let withdrawn = sum(c
        .prepare_cached(
            "SELECT coalesce(sum(amount_minor / 1000000), 0),
                    coalesce(sum(amount_minor % 1000000), 0)
             FROM item_queue INDEXED BY item_queue_counted
             WHERE counted = 1 AND item_type = ?1 AND owner = ?2 AND currency = ?3
               AND status IN (SELECT value FROM json_each(?6))
               AND created_at >= ?4 AND created_at < ?5",
        )?
        .query_row(
            params![
                item_type.as_str(),
                asked.owner,
                asked.currency,
                Us(asked.from),
                Us(asked.to),
                json(&asked.uncounted)?
            ],
            two,
        )?);
    Ok(i64::try_from(taken_in - withdrawn).unwrap_or(i64::MAX))
}

fn two(row: &Row<'_>) -> rusqlite::Result<(i64, i64)> {
    Ok((row.get(0)?, row.get(1)?))
}

fn sum((millions, rest): (i64, i64)) -> i128 {
    i128::from(millions) * MILLION + i128::from(rest)
}

/// An item that counts was written.
pub(super) fn count(
    c: &Connection,
    item_type: &ItemType,
    item: &NewItem,
    now: Timestamp,
) -> rusqlite::Result<()> {
    if !item.is_counted() {
        return Ok(());
    }
    let record = &item.record;
    c.prepare_cached(
        "INSERT INTO owner_total (item_type, owner, currency, quarter, amount_minor)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (item_type, owner, currency, quarter) DO UPDATE SET amount_minor =
             min(amount_minor, 9223372036854775807 - excluded.amount_minor) + excluded.amount_minor",
    )?
    .execute(params![
        item_type.as_str(),
        record.owner,
        record.money.currency.code(),
        Us(quarter_of(now)),
        record.money.minor
    ])
    .map(drop)
}

fn json(texts: &[String]) -> rusqlite::Result<String> {
    serde_json::to_string(texts).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}
