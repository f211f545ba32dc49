//! The send log of what was moved: the turns of a lane, packed by the hour, so that the certificate of any stretch of
//! time stays what it was.

use std::collections::BTreeMap;

use tollgate_core::Timestamp;
use tollgate_core::archive::ArchiveDay;
use tollgate_core::id::{ItemType, LaneName};
use tollgate_core::ports::{StoreError, StoreResult};

use crate::sql::{Sql, Tx, params};

pub(super) const HOUR_US: i64 = 3_600_000_000;

const ADD: &str = "INSERT INTO archived_turns (lane, hour, item_type, day, turns)
     VALUES ($1, $2, $3, $4, $5)";

/// The turns of some items, or of calls, by lane, hour and the day that they are archived with.
#[derive(Debug, Default)]
pub(super) struct Turns(BTreeMap<(String, i64, i64), Vec<i64>>);

impl Turns {
    /// What has no lane had no turn.
    pub(super) fn add(&mut self, lane: &LaneName, at: Timestamp, day: i64) {
        if !lane.as_str().is_empty() {
            let at = at.as_microsecond();
            let key = (lane.to_string(), at.div_euclid(HOUR_US), day);
            self.0.entry(key).or_default().push(at);
        }
    }

    pub(super) async fn write(self, tx: &Tx, item_type: &ItemType) {
        let row = |((lane, hour, day), mut turns): ((String, i64, i64), Vec<i64>)| {
            turns.sort_unstable();
            params![lane, hour, item_type, day, packed(hour * HOUR_US, &turns)]
        };
        tx.execute_each(ADD, self.0.into_iter().map(row).collect())
            .await;
    }
}

/// Calls without an item have nothing but their turn. Rounds at the same time move different ones: a turn that was moved twice
/// would count twice for good.
pub(super) async fn move_calls(tx: &Tx, before: Timestamp, at_most: u32) -> StoreResult<u64> {
    const CALLS: Sql = Sql::each(
        "SELECT attempt_id, lane, turn_at FROM attempt
         WHERE item_type = '' AND item_id = '' AND turn_at < $1 LIMIT $2",
        "SELECT attempt_id, lane, turn_at FROM attempt
         WHERE item_type = '' AND item_id = '' AND turn_at < $1 LIMIT $2
         FOR UPDATE SKIP LOCKED",
    );
    const DELETE: &str = "DELETE FROM attempt WHERE attempt_id = $1";
    let mut turns = Turns::default();
    let mut moved = vec![];
    for row in tx.rows(CALLS, params![before, at_most]).await {
        let at: Timestamp = row.get("turn_at")?;
        let day = ArchiveDay::of(at).number();
        turns.add(&row.get::<LaneName>("lane")?, at, day);
        moved.push(params![row.get::<i64>("attempt_id")?]);
    }
    turns.write(tx, &ItemType::new("")).await;
    Ok(tx.execute_each(DELETE, moved).await)
}

/// The hours of a stretch of time of which the archive has turns.
pub(crate) async fn hours(
    tx: &Tx,
    lane: &LaneName,
    from: Timestamp,
    to: Timestamp,
) -> StoreResult<Vec<i64>> {
    const HOURS: &str = "SELECT DISTINCT hour FROM archived_turns
         WHERE lane = $1 AND hour >= $2 AND hour <= $3 ORDER BY hour";
    let rows = tx
        .rows(HOURS, params![lane, hour_of(from), hour_of(to)])
        .await;
    rows.iter().map(|row| row.get("hour")).collect()
}

/// Hours since 1970.
pub(super) fn hour_of(at: Timestamp) -> i64 {
    at.as_microsecond().div_euclid(HOUR_US)
}

/// The first moment of an hour, and the first after it.
pub(crate) fn bounds(hour: i64) -> (Timestamp, Timestamp) {
    let at = |hour: i64| Timestamp::from_microsecond(hour * HOUR_US).unwrap_or(Timestamp::MAX);
    (at(hour), at(hour + 1))
}

/// The turns of one hour, in no order.
pub(crate) async fn turns(tx: &Tx, lane: &LaneName, hour: i64) -> StoreResult<Vec<Timestamp>> {
    const TURNS: &str = "SELECT turns FROM archived_turns WHERE lane = $1 AND hour = $2";
    let mut found = vec![];
    for row in tx.rows(TURNS, params![lane, hour]).await {
        let packed: Vec<u8> = row.get("turns")?;
        for at in unpacked(hour * HOUR_US, &packed)? {
            let wrong = |e| StoreError::Bug(format!("a turn of the archive: {e}"));
            found.push(Timestamp::from_microsecond(at).map_err(wrong)?);
        }
    }
    Ok(found)
}

/// The steps from one turn to the next, seven bits to a byte, the lowest first; the top bit says that more follow.
fn packed(start: i64, turns: &[i64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(turns.len() * 3);
    let mut last = start;
    for turn in turns {
        let mut step = turn.abs_diff(last);
        last = *turn;
        while step >= 0x80 {
            bytes.push(low_bits(step) | 0x80);
            step >>= 7;
        }
        bytes.push(low_bits(step));
    }
    bytes
}

fn low_bits(step: u64) -> u8 {
    step.to_le_bytes()[0] & 0x7f
}

fn unpacked(start: i64, bytes: &[u8]) -> StoreResult<Vec<i64>> {
    let damaged = || StoreError::Bug("turns of the archive are damaged".into());
    let (mut turns, mut at) = (vec![], start);
    let (mut step, mut shift) = (0_i64, 0_u32);
    for byte in bytes {
        let bits = i64::from(byte & 0x7f)
            .checked_shl(shift)
            .ok_or_else(damaged)?;
        step |= bits;
        shift += 7;
        if byte & 0x80 == 0 {
            at = at.checked_add(step).ok_or_else(damaged)?;
            turns.push(at);
            (step, shift) = (0, 0);
        }
    }
    if shift > 0 {
        return Err(damaged());
    }
    Ok(turns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_read_as_they_were_written_in_about_three_bytes_each() {
        let start = 1_000 * HOUR_US;
        let turns: Vec<i64> = (0..1000).map(|n| start + n * 10_037).collect();
        let bytes = packed(start, &turns);
        assert_eq!(unpacked(start, &bytes).unwrap(), turns);
        assert!(bytes.len() < 2_200, "{}", bytes.len());
        for turns in [vec![], vec![start], vec![start, start, start + HOUR_US - 1]] {
            assert_eq!(unpacked(start, &packed(start, &turns)).unwrap(), turns);
        }
        assert!(unpacked(start, &[0x80]).is_err());
    }
}
