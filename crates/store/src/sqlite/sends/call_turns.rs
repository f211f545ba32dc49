//! The turn of a call that belongs to no item.

use rusqlite::{Connection, OptionalExtension, params};
use rust_decimal::Decimal;
use tollgate_core::Timestamp;
use tollgate_core::call_turn::give_call_turn;
use tollgate_core::gate::Moment;
use tollgate_core::lane_in_force::{LaneState, no_such_lane};
use tollgate_core::ports::{CallGiven, CallTurn, CallWanted};

use super::eras;
use crate::sqlite::connection::value::Us;
use crate::sqlite::lanes;

pub(super) fn take(
    c: &Connection,
    wanted: &CallWanted,
    margin: Decimal,
    now: Timestamp,
) -> rusqlite::Result<CallTurn> {
    let lane = lanes::in_force(c, &wanted.lane)?;
    let closed = |why| CallTurn {
        now,
        given: CallGiven::Closed { why },
    };
    let Some(lane) = lane else {
        return Ok(closed(no_such_lane(&wanted.lane)));
    };
    let closes_at = match lane.state(now) {
        LaneState::Open { until } => until,
        LaneState::Closed { why, .. } => return Ok(closed(why)),
    };
    let (last_turn, last_call) = cursor(c, wanted.lane.as_str())?;
    let moment = Moment {
        last_turn,
        now,
        lead: wanted.lead,
        closes_at,
    };
    let given = give_call_turn(lane.lane.pace(margin), wanted.share, moment, last_call);
    if let CallGiven::At(at) = given {
        log(c, wanted.lane.as_str(), Us(at))?;
    }
    Ok(CallTurn { now, given })
}

/// The last turn of all, and the last of a call.
fn cursor(c: &Connection, lane: &str) -> rusqlite::Result<(Option<Timestamp>, Option<Timestamp>)> {
    let row: Option<(Option<Us>, Option<Us>)> = c
        .prepare_cached("SELECT last_turn, last_call FROM lane_cursor WHERE lane = ?1")?
        .query_row([lane], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (last_turn, last_call) = row.unwrap_or_default();
    Ok((last_turn.map(|us| us.0), last_call.map(|us| us.0)))
}

fn log(c: &Connection, lane: &str, at: Us) -> rusqlite::Result<()> {
    c.prepare_cached(
        "INSERT INTO lane_cursor (lane, last_turn, last_call) VALUES (?1, ?2, ?2)
         ON CONFLICT (lane) DO UPDATE SET last_turn = excluded.last_turn,
             last_call = excluded.last_call",
    )?
    .execute(params![lane, at])?;
    c.prepare_cached(
        "INSERT INTO attempt (item_type, item_id, run, kind, state, lane, idempotency_key, turn_at,
                              era, detail)
         VALUES ('', '', 0, 'CALL', 'CALL', ?1, '', ?2, ?3, '')",
    )?
    .execute(params![lane, at, eras::current(c)?.number])?;
    Ok(())
}
