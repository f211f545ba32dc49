//! Turns: a block of waiting attempts gets its exact times, in one transaction that holds the
//! lane's cursor.

use std::collections::HashMap;

use deadpool_postgres::Transaction;
use rust_decimal::Decimal;
use tokio_postgres::Row;
use tollgate_core::Timestamp;
use tollgate_core::gate::Moment;
use tollgate_core::id::{AttemptId, Epoch, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::lane_in_force::{LaneState, no_such_lane};
use tollgate_core::ports::{NewTurn, StoreResult, Turn, TurnBlock, TurnsWanted};
use tollgate_core::storm::{Canary, give_block_watched, within_reach};
use tollgate_core::turns::{Block, Owner};

use super::open_attempts::open;
use super::{eras, storms};
use crate::postgres::connection::run::{all, optional};
use crate::postgres::connection::value::{Count, Us, word};
use crate::postgres::lanes;

pub(super) async fn take(
    tx: &Transaction<'_>,
    wanted: &TurnsWanted,
    margin: Decimal,
    epoch: Option<Epoch>,
) -> StoreResult<TurnBlock> {
    let (last_turn, near) = lock_cursor_and_look(tx, wanted, margin).await?;
    let mut owners = lock_owners(tx, near).await?;
    // Sent together. The clock is read under the cursor's lock and the owners'.
    let (pasts, canary, lane, (now, era)) = futures::try_join!(
        pasts(tx, near),
        storms::canary(tx, wanted.watch),
        lanes::lane(tx, &wanted.lane),
        eras::now(tx)
    )?;
    for (n, past) in pasts {
        if let Some(owner) = owners.get_mut(&n) {
            past.tell(owner);
        }
    }
    let numbered = (1..).zip(near);
    let owners: Vec<Option<Owner>> = numbered.map(|(n, _)| owners.get(&n).copied()).collect();
    let closed = |why, until| TurnBlock::closed(wanted.attempts.len(), why, until, now);
    let Some(lane) = lane else {
        return Ok(closed(no_such_lane(&wanted.lane), None));
    };
    let closes_at = match lane.state(now) {
        LaneState::Open { until } => until,
        LaneState::Closed { why, until } => return Ok(closed(why, until)),
    };
    let moment = Moment {
        last_turn,
        now,
        lead: wanted.lead,
        closes_at,
    };
    let canary = canary.map(|(limit, places)| Canary::new(limit, places, now));
    let pace = lane.lane.pace(margin);
    let block = give_block_watched(pace, moment, &wanted.attempts, &owners, canary.as_ref());
    let time = TurnTime {
        now,
        era: era.number,
        epoch,
    };
    let given = write(tx, wanted, block, time).await?;
    storms::take_places(tx, wanted, canary.as_ref(), &given).await?;
    Ok(given)
}

/// When a block is given, and by whom.
struct TurnTime {
    now: Timestamp,
    era: i64,
    epoch: Option<Epoch>,
}

/// The last turn, and the attempts that can have one now. Only their items are locked: a lock is written to the log, and on
/// a busy lane many wait for each that goes out. This is a first look, sent with the cursor's lock; what it leaves out asks
/// again, and what it takes in is judged by what is read under the locks.
async fn lock_cursor_and_look<'w>(
    tx: &Transaction<'_>,
    wanted: &'w TurnsWanted,
    margin: Decimal,
) -> StoreResult<(Option<Timestamp>, &'w [NewTurn])> {
    let (last_turn, canary, lane, (now, _)) = futures::try_join!(
        lock_cursor(tx, &wanted.lane),
        storms::canary(tx, wanted.watch),
        lanes::lane(tx, &wanted.lane),
        eras::now(tx)
    )?;
    let none = &wanted.attempts[..0];
    let Some(lane) = lane else {
        return Ok((last_turn, none));
    };
    let LaneState::Open { until } = lane.state(now) else {
        return Ok((last_turn, none));
    };
    let moment = Moment {
        last_turn,
        now,
        lead: wanted.lead,
        closes_at: until,
    };
    let canary = canary.map(|(limit, places)| Canary::new(limit, places, now));
    let pace = lane.lane.pace(margin);
    let reach = within_reach(pace, moment, &wanted.attempts, canary.as_ref());
    Ok((last_turn, &wanted.attempts[..reach]))
}

/// Opens the attempts that were given a turn.
async fn write(
    tx: &Transaction<'_>,
    wanted: &TurnsWanted,
    block: Block,
    TurnTime { now, era, epoch }: TurnTime,
) -> StoreResult<TurnBlock> {
    let asking = wanted.attempts.iter().zip(&block.turns);
    let given = asking.filter_map(|(attempt, turn)| Some((attempt, *turn.as_ref().ok()?)));
    let given: Vec<(&NewTurn, Timestamp)> = given.collect();
    let opened = open(tx, wanted, &given, (era, epoch)).await?;
    let asking = wanted.attempts.iter().zip(block.turns);
    let turns = asking.map(|(attempt, turn)| match (turn, opened.get(&attempt.item)) {
        (Err(told), _) => told,
        (Ok(at), Some(attempt)) => Turn::At {
            attempt: *attempt,
            at,
        },
        (Ok(_), None) => Turn::LookAgain("another attempt was opened in the meantime".into()),
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

/// Who owns the items of these attempts now, by their place in the block. No other turn, of whatever
/// lane, is given for them until this transaction ends; locked in the order of their keys.
async fn lock_owners(
    tx: &Transaction<'_>,
    attempts: &[NewTurn],
) -> StoreResult<HashMap<i64, Owner>> {
    const OWNERS: &str =
        "SELECT w.n, q.queue_status, q.run, q.finished_at IS NOT NULL, q.hold_after
         FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (item_type, item_id, n)
         JOIN item_queue q ON q.item_type = w.item_type AND q.item_id = w.item_id
         ORDER BY q.item_type, q.item_id FOR NO KEY UPDATE OF q";
    if attempts.is_empty() {
        return Ok(HashMap::new());
    }
    let (types, ids) = keys(attempts);
    let rows = all(tx, OWNERS, &[&types, &ids]).await?;
    let owners = rows.iter().map(|row| Ok((row.get(0), owner_from(row)?)));
    owners.collect()
}

fn owner_from(row: &Row) -> StoreResult<Owner> {
    Ok(Owner {
        queue_status: word(row, 1, QueueStatus::parse)?,
        run: row.get::<_, Count>(2).0,
        has_ended: row.get(3),
        hold_after: row.get::<_, Option<Us>>(4).map(|us| us.0),
        latest: None,
        open: None,
        was_done: false,
    })
}

/// The attempts of one item.
struct Pasts {
    latest: i64,
    open: Option<i64>,
    was_done: bool,
}

impl Pasts {
    fn tell(self, owner: &mut Owner) {
        owner.latest = Some(AttemptId(self.latest));
        owner.open = self.open.map(AttemptId);
        owner.was_done = self.was_done;
    }
}

/// What was attempted before, by place in the block. A statement of its own, after the lock: one
/// that waits for a lock sees the locked row as it became, and every other table as it was before
/// it waited, which may lack the very attempt that the lock was waited for.
async fn pasts(tx: &Transaction<'_>, attempts: &[NewTurn]) -> StoreResult<Vec<(i64, Pasts)>> {
    const PASTS: &str = "SELECT w.n, max(a.attempt_id),
                max(a.attempt_id) FILTER (WHERE a.state = 'OPEN'), bool_or(a.state = 'DONE')
         FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (item_type, item_id, n)
         JOIN attempt a ON a.item_type = w.item_type AND a.item_id = w.item_id
         GROUP BY w.n";
    if attempts.is_empty() {
        return Ok(vec![]);
    }
    let (types, ids) = keys(attempts);
    let rows = all(tx, PASTS, &[&types, &ids]).await?;
    let pasts = rows.iter().map(|row| {
        let past = Pasts {
            latest: row.get(1),
            open: row.get(2),
            was_done: row.get(3),
        };
        (row.get(0), past)
    });
    Ok(pasts.collect())
}

fn keys(attempts: &[NewTurn]) -> (Vec<&str>, Vec<&str>) {
    let items = attempts.iter().map(|a| &a.item);
    items
        .map(|item| (item.item_type.as_str(), item.id.as_str()))
        .unzip()
}
