//! Turns: a block of waiting attempts gets its exact times, in one transaction.

use rusqlite::{Connection, OptionalExtension, params};
use rust_decimal::Decimal;
use tollgate_core::Timestamp;
use tollgate_core::gate::Moment;
use tollgate_core::id::{AttemptId, Item, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::lane_in_force::{LaneState, no_such_lane};
use tollgate_core::ports::{NewTurn, Turn, TurnBlock, TurnsWanted};
use tollgate_core::storm::give_block_watched;
use tollgate_core::turns::{Block, Owner};

use super::{eras, storms};
use crate::sqlite::connection::value::{Us, word};
use crate::sqlite::lanes;

pub(super) fn take(
    c: &Connection,
    wanted: &TurnsWanted,
    margin: Decimal,
    now: Timestamp,
) -> rusqlite::Result<TurnBlock> {
    let closed = |why, until| TurnBlock::closed(wanted.attempts.len(), why, until, now);
    let Some(lane) = lanes::in_force(c, &wanted.lane)? else {
        return Ok(closed(no_such_lane(&wanted.lane), None));
    };
    let closes_at = match lane.state(now) {
        LaneState::Open { until } => until,
        LaneState::Closed { why, until } => return Ok(closed(why, until)),
    };
    let moment = Moment {
        last_turn: last_turn(c, &wanted.lane)?,
        now,
        lead: wanted.lead,
        closes_at,
    };
    let owners = wanted.attempts.iter().map(|a| owner(c, &a.item));
    let owners = owners.collect::<rusqlite::Result<Vec<_>>>()?;
    let canary = storms::canary(c, wanted.watch, now)?;
    let pace = lane.lane.pace(margin);
    let block = give_block_watched(pace, moment, &wanted.attempts, &owners, canary.as_ref());
    let given = write(c, wanted, block, now)?;
    storms::take_places(c, wanted, canary.as_ref(), &given)?;
    Ok(given)
}

/// Opens the attempts that were given a turn, and moves the cursor.
fn write(
    c: &Connection,
    wanted: &TurnsWanted,
    block: Block,
    now: Timestamp,
) -> rusqlite::Result<TurnBlock> {
    if let Some(last) = block.last_turn() {
        move_cursor(c, &wanted.lane, Us(last))?;
    }
    let era = eras::current(c)?.number;
    let asking = wanted.attempts.iter().zip(block.turns);
    let turns = asking.map(|(attempt, turn)| match turn {
        Ok(at) => {
            let attempt = open(c, wanted, attempt, Us(at), era)?;
            Ok(Turn::At { attempt, at })
        }
        Err(told) => Ok(told),
    });
    Ok(TurnBlock {
        now,
        era,
        turns: turns.collect::<rusqlite::Result<_>>()?,
        ask_again_in: block.ask_again_in,
    })
}

fn owner(c: &Connection, item: &Item) -> rusqlite::Result<Option<Owner>> {
    c.prepare_cached(
        "SELECT q.queue_status, q.run, q.finished_at IS NOT NULL, q.hold_after,
                (SELECT max(l.attempt_id) FROM attempt l
                 WHERE l.item_type = ?1 AND l.item_id = ?2),
                (SELECT a.attempt_id FROM attempt a
                 WHERE a.item_type = ?1 AND a.item_id = ?2 AND a.state = 'OPEN'),
                EXISTS (SELECT 1 FROM attempt d
                        WHERE d.item_type = ?1 AND d.item_id = ?2 AND d.state = 'DONE')
         FROM item_queue q WHERE q.item_type = ?1 AND q.item_id = ?2",
    )?
    .query_row(params![item.item_type.as_str(), item.id.as_str()], |row| {
        Ok(Owner {
            queue_status: word(row, 0, QueueStatus::parse)?,
            run: row.get(1)?,
            has_ended: row.get(2)?,
            hold_after: row.get::<_, Option<Us>>(3)?.map(|us| us.0),
            latest: row.get::<_, Option<i64>>(4)?.map(AttemptId),
            open: row.get::<_, Option<i64>>(5)?.map(AttemptId),
            was_done: row.get(6)?,
        })
    })
    .optional()
}

fn open(
    c: &Connection,
    wanted: &TurnsWanted,
    new: &NewTurn,
    at: Us,
    era: i64,
) -> rusqlite::Result<AttemptId> {
    if let Some(missed) = new.missed {
        // Nothing was sent in the missed turn: the attempt gets another instead.
        c.prepare_cached("UPDATE attempt SET turn_at = ?2, era = ?3 WHERE attempt_id = ?1")?
            .execute(params![missed.0, at, era])?;
        return Ok(missed);
    }
    c.prepare_cached(
        "INSERT INTO attempt (item_type, item_id, run, kind, state, lane, idempotency_key, turn_at,
                              era, detail, watch_id)
         VALUES (?1, ?2, ?3, ?4, 'OPEN', ?5, ?6, ?7, ?8, '', ?9)",
    )?
    .execute(params![
        new.item.item_type.as_str(),
        new.item.id.as_str(),
        new.run,
        new.kind.as_str(),
        wanted.lane.as_str(),
        new.key,
        at,
        era,
        wanted.watch.map(|watch| watch.0)
    ])?;
    Ok(AttemptId(c.last_insert_rowid()))
}

pub(super) fn last_turn(c: &Connection, lane: &LaneName) -> rusqlite::Result<Option<Timestamp>> {
    let row = c
        .prepare_cached("SELECT last_turn FROM lane_cursor WHERE lane = ?1")?
        .query_row([lane.as_str()], |row| row.get::<_, Option<Us>>(0))
        .optional()?;
    Ok(row.flatten().map(|us| us.0))
}

fn move_cursor(c: &Connection, lane: &LaneName, last: Us) -> rusqlite::Result<()> {
    c.prepare_cached(
        "INSERT INTO lane_cursor (lane, last_turn) VALUES (?1, ?2)
         ON CONFLICT (lane) DO UPDATE SET last_turn = excluded.last_turn",
    )?
    .execute(params![lane.as_str(), last])?;
    Ok(())
}
