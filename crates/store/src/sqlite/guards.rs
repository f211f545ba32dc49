//! What guards need to know about the items that were taken in before. The writer is alone, so
//! what is counted here holds until it has written.

use rusqlite::{Connection, params};
use tollgate_core::Timestamp;
use tollgate_core::guard::{Tally, TotalQuestion, TwinQuestion};
use tollgate_core::id::ItemType;
use tollgate_core::ports::NewItem;

use super::value::Us;

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
    for (asked, last) in tally.twins_mut() {
        *last = last_twin(c, item_type, asked)?;
    }
    for (asked, total) in tally.totals_mut() {
        *total = total_of(c, item_type, asked)?;
    }
    Ok(tally)
}

fn last_twin(
    c: &Connection,
    item_type: &ItemType,
    asked: &TwinQuestion,
) -> rusqlite::Result<Option<Timestamp>> {
    let last: Option<Us> = c
        .prepare_cached(
            "SELECT max(created_at) FROM record
             WHERE item_type = ?1 AND duplicate_key = ?2
               AND status NOT IN (SELECT value FROM json_each(?3))",
        )?
        .query_row(
            params![item_type.as_str(), asked.key, json(&asked.uncounted)?],
            |row| row.get(0),
        )?;
    Ok(last.map(|us| us.0))
}

fn total_of(c: &Connection, item_type: &ItemType, asked: &TotalQuestion) -> rusqlite::Result<i64> {
    let (millions, rest): (i64, i64) = c
        .prepare_cached(
            "SELECT coalesce(sum(amount_minor / 1000000), 0),
                    coalesce(sum(amount_minor % 1000000), 0)
             FROM record
             WHERE counted = 1 AND item_type = ?1 AND owner = ?2 AND currency = ?3
               AND created_at >= ?4 AND created_at < ?5
               AND status NOT IN (SELECT value FROM json_each(?6))",
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
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
    let total = i128::from(millions) * MILLION + i128::from(rest);
    Ok(i64::try_from(total).unwrap_or(i64::MAX))
}

fn json(texts: &[String]) -> rusqlite::Result<String> {
    serde_json::to_string(texts).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}
