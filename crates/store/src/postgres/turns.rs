//! Turns: a block of waiting attempts gets its exact times, in one transaction that holds the
//! lane's cursor.

use std::collections::HashMap;

use deadpool_postgres::Transaction;
use rust_decimal::Decimal;
use tokio_postgres::Row;
use tollgate_core::Timestamp;
use tollgate_core::gate::Moment;
use tollgate_core::id::{AttemptId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::lane_in_force::{Standing, no_such_lane};
use tollgate_core::ports::{NewTurn, StoreResult, Turn, TurnBlock, TurnsWanted};
use tollgate_core::turns::{Block, Owner, give_block};

use super::open_attempts::open;
use super::run::{all, optional};
use super::value::{Count, Us, word};
use super::{eras, lanes};

pub(super) async fn take(
    tx: &Transaction<'_>,
    wanted: &TurnsWanted,
    margin: Decimal,
) -> StoreResult<TurnBlock> {
    let last_turn = lock_cursor(tx, &wanted.lane).await?;
    // Sent together. The clock is read under the cursor's lock, and behind the owners' unless a
    // statement is still being prepared on this connection; then a turn may merely be missed.
    let (owners, lane, (now, era)) = futures::try_join!(
        owners(tx, &wanted.attempts),
        lanes::lane(tx, &wanted.lane),
        eras::now(tx)
    )?;
    let closed = |why, until| TurnBlock::closed(wanted.attempts.len(), why, until, now);
    let Some(lane) = lane else {
        return Ok(closed(no_such_lane(&wanted.lane), None));
    };
    let closes_at = match lane.standing(now) {
        Standing::Open { until } => until,
        Standing::Closed { why, until } => return Ok(closed(why, until)),
    };
    let moment = Moment {
        last_turn,
        now,
        lead: wanted.lead,
        closes_at,
    };
    let block = give_block(lane.lane.pace(margin), moment, &wanted.attempts, &owners);
    write(tx, wanted, block, now, era.number).await
}

/// Opens the attempts that were given a turn.
async fn write(
    tx: &Transaction<'_>,
    wanted: &TurnsWanted,
    block: Block,
    now: Timestamp,
    era: i64,
) -> StoreResult<TurnBlock> {
    let asking = wanted.attempts.iter().zip(&block.turns);
    let given = asking.filter_map(|(attempt, turn)| Some((attempt, *turn.as_ref().ok()?)));
    let given: Vec<(&NewTurn, Timestamp)> = given.collect();
    let opened = open(tx, &wanted.lane, &given, era).await?;
    let asking = wanted.attempts.iter().zip(block.turns);
    let turns = asking.map(|(attempt, turn)| match (turn, opened.get(&attempt.item)) {
        (Err(told), _) => told,
        (Ok(at), Some(attempt)) => Turn::At {
            attempt: *attempt,
            at,
        },
        (Ok(_), None) => Turn::NotYours("another attempt was opened meanwhile".into()),
    });
    Ok(TurnBlock {
        now,
        era,
        turns: turns.collect(),
        ask_again_in: block.ask_again_in,
    })
}

/// The last turn that was given.
async fn lock_cursor(tx: &Transaction<'_>, lane: &LaneName) -> StoreResult<Option<Timestamp>> {
    const LOCK: &str = "SELECT last_turn FROM lane_cursor WHERE lane = $1 FOR UPDATE";
    let row = optional(tx, LOCK, &[&lane.as_str()]).await?;
    let last_turn = row.and_then(|row| row.get::<_, Option<Us>>(0));
    Ok(last_turn.map(|us| us.0))
}

/// Who owns the items of these attempts now, in their order; held until the turns are given, in the
/// order of their keys.
async fn owners(tx: &Transaction<'_>, attempts: &[NewTurn]) -> StoreResult<Vec<Option<Owner>>> {
    const OWNERS: &str =
        "SELECT w.n, q.queue_status, q.run, q.finished_at IS NOT NULL, a.attempt_id, q.hold_after,
                EXISTS (SELECT 1 FROM attempt d
                    WHERE d.item_type = q.item_type AND d.item_id = q.item_id
                      AND d.state = 'DONE')
         FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (item_type, item_id, n)
         JOIN item_queue q ON q.item_type = w.item_type AND q.item_id = w.item_id
         LEFT JOIN attempt a ON a.item_type = q.item_type AND a.item_id = q.item_id
                            AND a.state = 'OPEN'
         ORDER BY q.item_type, q.item_id FOR SHARE OF q";
    let types: Vec<&str> = attempts.iter().map(|a| a.item.item_type.as_str()).collect();
    let ids: Vec<&str> = attempts.iter().map(|a| a.item.id.as_str()).collect();
    let rows = all(tx, OWNERS, &[&types, &ids]).await?;
    let found = rows.iter().map(|row| Ok((row.get(0), owner_from(row)?)));
    let found = found.collect::<StoreResult<HashMap<i64, Owner>>>()?;
    let numbered = (1..).zip(attempts);
    Ok(numbered.map(|(n, _)| found.get(&n).copied()).collect())
}

fn owner_from(row: &Row) -> StoreResult<Owner> {
    Ok(Owner {
        queue_status: word(row, 1, QueueStatus::parse)?,
        run: row.get::<_, Count>(2).0,
        has_ended: row.get(3),
        open: row.get::<_, Option<i64>>(4).map(AttemptId),
        was_done: row.get(6),
        hold_after: row.get::<_, Option<Us>>(5).map(|us| us.0),
    })
}
