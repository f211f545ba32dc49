//! Turns: a block of waiting attempts gets its exact times, in one transaction.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension, params};
use rust_decimal::Decimal;
use tollgate_core::Timestamp;
use tollgate_core::gate::{Moment, Pace, ask_again_in, give_turns};
use tollgate_core::id::{AttemptId, LaneName};
use tollgate_core::lane_in_force::Standing;
use tollgate_core::ports::{NewTurn, Turn, TurnBlock, TurnsWanted};

use super::value::Us;
use super::{eras, lanes};

pub(super) fn take(
    c: &Connection,
    wanted: &TurnsWanted,
    margin: Decimal,
    now: Timestamp,
) -> rusqlite::Result<TurnBlock> {
    let lane = lanes::in_force(c, &wanted.lane)?;
    match (
        lane.as_ref(),
        Standing::of(lane.as_ref(), &wanted.lane, now),
    ) {
        (Some(lane), Standing::Open { until }) => {
            give(c, wanted, lane.lane.pace(margin), now, until)
        }
        (_, Standing::Closed { why, until }) => {
            Ok(TurnBlock::closed(wanted.attempts.len(), why, until, now))
        }
        (None, Standing::Open { .. }) => unreachable!("a missing lane is closed"),
    }
}

fn give(
    c: &Connection,
    wanted: &TurnsWanted,
    pace: Pace,
    now: Timestamp,
    closes_at: Timestamp,
) -> rusqlite::Result<TurnBlock> {
    let (last_turn, era) = (last_turn(c, &wanted.lane)?, eras::current(c)?.number);
    let mut seen = HashSet::new();
    let owned: Vec<Result<Owned, String>> = wanted
        .attempts
        .iter()
        .map(|a| {
            let owned = owned(c, a)?;
            if owned.is_ok() && !seen.insert(&a.item) {
                return Ok(Err("another attempt of this block was first".into()));
            }
            Ok(owned)
        })
        .collect::<rusqlite::Result<_>>()?;
    let planned: Vec<Timestamp> = wanted
        .attempts
        .iter()
        .zip(&owned)
        .filter(|(_, owned)| owned.is_ok())
        .map(|(attempt, _)| attempt.planned)
        .collect();
    let moment = Moment {
        last_turn,
        now,
        lead: wanted.lead,
        closes_at,
    };
    let mut times = give_turns(pace, moment, &planned).into_iter();
    let (mut turns, mut last_given, mut first_later) = (Vec::new(), None, None);
    for (attempt, owned) in wanted.attempts.iter().zip(owned) {
        turns.push(match owned {
            Err(why) => Turn::NotYours(why),
            Ok(owned) => match times.next().flatten() {
                Some(at) if owned.hold_after.is_some_and(|limit| at > limit) => Turn::TooLate,
                Some(at) => {
                    last_given = Some(at);
                    Turn::At {
                        attempt: open(c, &wanted.lane, attempt, Us(at), era)?,
                        at,
                    }
                }
                None => {
                    first_later.get_or_insert(attempt.planned);
                    Turn::Later
                }
            },
        });
    }
    if let Some(last) = last_given {
        move_cursor(c, &wanted.lane, Us(last))?;
    }
    let last_turn = last_given.or(last_turn);
    Ok(TurnBlock {
        now,
        era,
        turns,
        ask_again_in: ask_again_in(pace, now, last_turn, first_later),
    })
}

/// An attempt that may go out.
struct Owned {
    /// But not after this time.
    hold_after: Option<Timestamp>,
}

/// Or why it may not: the owner's token is checked here, when the turn is taken.
fn owned(c: &Connection, attempt: &NewTurn) -> rusqlite::Result<Result<Owned, String>> {
    let item = params![attempt.item.item_type.as_str(), attempt.item.id.as_str()];
    let row: Option<(String, u32, bool, Option<Us>)> = c
        .prepare_cached(
            "SELECT queue_status, run, finished_at IS NOT NULL, hold_after FROM item_queue
             WHERE item_type = ?1 AND item_id = ?2",
        )?
        .query_row(item, |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    let lost = |now: String| {
        let run = attempt.run;
        Ok(Err(format!(
            "run {run} no longer owns the item, which is {now}"
        )))
    };
    let Some((status, run, has_ended, hold_after)) = row else {
        return lost("gone".to_owned());
    };
    let is_theirs = run == attempt.run && matches!(status.as_str(), "CLAIMED" | "DISPATCHED");
    if !is_theirs || has_ended {
        return lost(format!("{status}, run {run}"));
    }
    let owned = Owned {
        hold_after: hold_after.filter(|_| !attempt.may_be_late).map(|us| us.0),
    };
    let found: Option<(i64, bool)> = c
        .prepare_cached(
            "SELECT attempt_id, state = 'DONE' FROM attempt
             WHERE item_type = ?1 AND item_id = ?2 AND state IN ('OPEN', 'DONE')",
        )?
        .query_row(item, |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    if let Some((done, true)) = found {
        return Ok(Err(format!("attempt {done} has done it")));
    }
    Ok(match (found.map(|(open, _)| open), attempt.missed) {
        (None, None) => Ok(owned),
        (Some(open), Some(missed)) if open == missed.0 => Ok(owned),
        (Some(open), _) => Err(format!("attempt {open} is open")),
        (None, Some(missed)) => Err(format!("attempt {} was taken over", missed.0)),
    })
}

fn open(
    c: &Connection,
    lane: &LaneName,
    new: &NewTurn,
    at: Us,
    era: i64,
) -> rusqlite::Result<AttemptId> {
    let attempt = match new.missed {
        Some(missed) => {
            // Nothing was sent in the missed turn: it leaves the log.
            c.prepare_cached(
                "DELETE FROM send_log WHERE lane = ?1 AND attempt_id = ?2
                 AND turn_at = (SELECT turn_at FROM attempt WHERE attempt_id = ?2)",
            )?
            .execute(params![lane.as_str(), missed.0])?;
            c.prepare_cached("UPDATE attempt SET turn_at = ?2, era = ?3 WHERE attempt_id = ?1")?
                .execute(params![missed.0, at, era])?;
            missed
        }
        None => {
            c.prepare_cached(
                "INSERT INTO attempt (item_type, item_id, run, kind, state, lane,
                                      idempotency_key, turn_at, era, detail)
                 VALUES (?1, ?2, ?3, ?4, 'OPEN', ?5, ?6, ?7, ?8, '')",
            )?
            .execute(params![
                new.item.item_type.as_str(),
                new.item.id.as_str(),
                new.run,
                new.kind.as_str(),
                lane.as_str(),
                new.key,
                at,
                era
            ])?;
            AttemptId(c.last_insert_rowid())
        }
    };
    c.prepare_cached("INSERT INTO send_log (lane, turn_at, attempt_id) VALUES (?1, ?2, ?3)")?
        .execute(params![lane.as_str(), at, attempt.0])?;
    Ok(attempt)
}

fn last_turn(c: &Connection, lane: &LaneName) -> rusqlite::Result<Option<Timestamp>> {
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
