//! Whether an answer comes from the hot tables, from the archive, or from both: looks at the ends of an index.

use tollgate_core::Timestamp;
use tollgate_core::archive::ArchiveDay;
use tollgate_core::guard::quarter_of;
use tollgate_core::id::{ItemType, LaneName};
use tollgate_core::ports::{FoundIn, StoreResult};

use super::known::day_from;
use super::turns::{bounds, hour_of};
use crate::sql::{Sql, Tx, params};

pub(super) async fn items(
    tx: &Tx,
    item_type: &ItemType,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
) -> StoreResult<FoundIn> {
    const HOT: Sql = Sql::each(
        "SELECT item_id FROM item_queue INDEXED BY item_queue_created
         WHERE item_type = $1 AND created_at >= $2 AND created_at < $3
         ORDER BY created_at LIMIT 1",
        "SELECT item_id FROM item_body
         WHERE item_type = $1 AND created_at >= $2 AND created_at < $3
         ORDER BY created_at LIMIT 1",
    );
    // What was accepted first may have ended last, so the order of acceptance is none of days: one look into the sums of
    // each day, from one end of all days and from the other, until a day has some.
    const FIRST: Sql = Sql::each(
        "SELECT d.day FROM archived_day d WHERE d.item_type = $1
           AND EXISTS (SELECT 1 FROM archived_sum s INDEXED BY archived_sum_day
                WHERE s.item_type = $1 AND s.day = d.day AND s.quarter >= $2 AND s.quarter < $3)
         ORDER BY d.day LIMIT 1",
        "SELECT d.day FROM archived_day d
         CROSS JOIN LATERAL (SELECT 1 FROM archived_sum
              WHERE item_type = $1 AND day = d.day AND quarter >= $2 AND quarter < $3 LIMIT 1) s
         WHERE d.item_type = $1 ORDER BY d.day LIMIT 1",
    );
    const LAST: Sql = Sql::each(
        "SELECT d.day FROM archived_day d WHERE d.item_type = $1
           AND EXISTS (SELECT 1 FROM archived_sum s INDEXED BY archived_sum_day
                WHERE s.item_type = $1 AND s.day = d.day AND s.quarter >= $2 AND s.quarter < $3)
         ORDER BY d.day DESC LIMIT 1",
        "SELECT d.day FROM archived_day d
         CROSS JOIN LATERAL (SELECT 1 FROM archived_sum
              WHERE item_type = $1 AND day = d.day AND quarter >= $2 AND quarter < $3 LIMIT 1) s
         WHERE d.item_type = $1 ORDER BY d.day DESC LIMIT 1",
    );
    let micros = |at: Timestamp| at.as_microsecond();
    let until = to.map_or(i64::MAX, micros);
    let hot = params![item_type, from.map_or(i64::MIN, micros), until];
    let hot = tx.row(HOT, hot).await.is_some();
    let quarter = from.map_or(i64::MIN, |at| micros(quarter_of(at)));
    let mut days = vec![];
    for sql in [FIRST, LAST] {
        let row = tx.row(sql, params![item_type, quarter, until]).await;
        days.extend(row.map(|row| day_from(&row, "day")).transpose()?);
    }
    Ok(FoundIn {
        hot,
        archive: span(&days),
    })
}

pub(super) async fn turns(
    tx: &Tx,
    lane: &LaneName,
    from: Timestamp,
    to: Timestamp,
) -> StoreResult<FoundIn> {
    const HOT: &str = "SELECT attempt_id FROM attempt
         WHERE lane = $1 AND turn_at >= $2 AND turn_at < $3 ORDER BY turn_at LIMIT 1";
    const FIRST: &str = "SELECT hour FROM archived_turns
         WHERE lane = $1 AND hour >= $2 AND hour < $3 ORDER BY hour LIMIT 1";
    const LAST: &str = "SELECT hour FROM archived_turns
         WHERE lane = $1 AND hour >= $2 AND hour < $3 ORDER BY hour DESC LIMIT 1";
    let hot = tx.row(HOT, params![lane, from, to]).await.is_some();
    // An hour that begins before the end.
    let last = hour_of(to) + i64::from(bounds(hour_of(to)).0 < to);
    let mut days = vec![];
    for sql in [FIRST, LAST] {
        if let Some(row) = tx.row(sql, params![lane, hour_of(from), last]).await {
            days.push(ArchiveDay::of(bounds(row.get("hour")?).0));
        }
    }
    Ok(FoundIn {
        hot,
        archive: span(&days),
    })
}

fn span(days: &[ArchiveDay]) -> Option<(ArchiveDay, ArchiveDay)> {
    let (first, last) = (days.iter().min()?, days.iter().max()?);
    Some((*first, *last))
}
