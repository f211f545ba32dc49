//! Turns: a block of waiting attempts gets its exact times, in one transaction.

use std::collections::HashSet;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use rust_decimal::Decimal;
use tollgate_core::Timestamp;
use tollgate_core::gate::{HORIZON, Moment, give_turns};
use tollgate_core::id::{AttemptId, LaneName};
use tollgate_core::ports::{NewTurn, StoreResult, Turn, TurnBlock, TurnsWanted};

use super::error::store_error;
use super::lanes;
use super::value::{Us, micros, until};

/// A lane that sends nothing is asked about again after this time at the earliest.
const CLOSED_PAUSE: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

pub(super) fn take(
    c: &Connection,
    wanted: &TurnsWanted,
    margin: Decimal,
    now: Timestamp,
) -> StoreResult<TurnBlock> {
    let lane = lanes::lane(c, &wanted.lane)?;
    let closed_until = lanes::closed_until(c, &wanted.lane).map_err(store_error)?;
    let closed_for = closed_until
        .map(|then| until(now.as_microsecond(), then))
        .filter(|d| !d.is_zero());
    let closed = match (&lane, closed_for) {
        (None, _) => Some((
            format!("lane \"{}\" does not exist", wanted.lane),
            CLOSED_PAUSE,
        )),
        (Some(lane), _) if lane.pause.is_some() => {
            let pause = lane
                .pause
                .as_ref()
                .map(|p| format!("{}: {}", p.actor, p.reason));
            let why = format!(
                "lane \"{}\" is paused by {}",
                wanted.lane,
                pause.unwrap_or_default()
            );
            Some((why, CLOSED_PAUSE))
        }
        (Some(_), Some(left)) => Some((
            format!("lane \"{}\" is closed by its downstream", wanted.lane),
            left,
        )),
        (Some(_), None) => None,
    };
    if let Some((why, for_at_least)) = closed {
        let turn = Turn::Closed { why, for_at_least };
        let turns = vec![turn; wanted.attempts.len()];
        return Ok(TurnBlock {
            now,
            turns,
            ask_again_in: for_at_least,
        });
    }
    let Some(lane) = lane else {
        unreachable!("a missing lane is closed")
    };
    give(c, wanted, lane.pace(margin), now).map_err(store_error)
}

fn give(
    c: &Connection,
    wanted: &TurnsWanted,
    pace: tollgate_core::gate::Pace,
    now: Timestamp,
) -> rusqlite::Result<TurnBlock> {
    let last_turn = last_turn(c, &wanted.lane)?;
    let mut seen = HashSet::new();
    let refusals: Vec<Option<String>> = wanted
        .attempts
        .iter()
        .map(|a| {
            let refusal = refusal(c, a)?;
            if refusal.is_none() && !seen.insert(&a.item) {
                return Ok(Some("another attempt of this block was first".into()));
            }
            Ok(refusal)
        })
        .collect::<rusqlite::Result<_>>()?;
    let planned: Vec<Timestamp> = wanted
        .attempts
        .iter()
        .zip(&refusals)
        .filter(|(_, refusal)| refusal.is_none())
        .map(|(attempt, _)| attempt.planned)
        .collect();
    let mut times = give_turns(
        pace,
        Moment {
            last_turn,
            now,
            lead: wanted.lead,
        },
        &planned,
    )
    .into_iter();
    let (mut turns, mut last_given, mut first_later) = (Vec::new(), None, None);
    for (attempt, refusal) in wanted.attempts.iter().zip(refusals) {
        turns.push(match refusal {
            Some(why) => Turn::NotYours(why),
            None => match times.next().flatten() {
                Some(at) => {
                    last_given = Some(at);
                    Turn::At {
                        attempt: open(c, &wanted.lane, attempt, Us(at))?,
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
    let reserved_until = last_given.or(last_turn).unwrap_or(now);
    let ask_again_in = ask_again(now, reserved_until, first_later.unwrap_or(now));
    Ok(TurnBlock {
        now,
        turns,
        ask_again_in,
    })
}

/// When half the horizon is free again, so that a busy lane takes its turns in blocks; or when
/// the next plan comes into reach.
fn ask_again(now: Timestamp, reserved_until: Timestamp, planned: Timestamp) -> Duration {
    let free = reserved_until.as_microsecond() - micros(HORIZON) / 2;
    let reach = planned.as_microsecond() - micros(HORIZON) / 2;
    until(now.as_microsecond(), free.max(reach)).max(SHORTEST_PAUSE)
}

/// Why this attempt may not go out: the owner's token is checked here, when the turn is taken.
fn refusal(c: &Connection, attempt: &NewTurn) -> rusqlite::Result<Option<String>> {
    let item = params![attempt.item.item_type.as_str(), attempt.item.id.as_str()];
    let row: Option<(String, u32, bool)> = c
        .prepare_cached(
            "SELECT queue_status, run, finished_at IS NOT NULL FROM item_queue
             WHERE item_type = ?1 AND item_id = ?2",
        )?
        .query_row(item, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let owned = matches!(&row, Some((status, run, false))
        if *run == attempt.run && matches!(status.as_str(), "CLAIMED" | "DISPATCHED"));
    if !owned {
        let now = row.map_or("gone".to_owned(), |(status, run, _)| {
            format!("{status}, run {run}")
        });
        return Ok(Some(format!(
            "run {} no longer owns the item, which is {now}",
            attempt.run
        )));
    }
    let open: Option<i64> = c
        .prepare_cached(
            "SELECT attempt_id FROM attempt
             WHERE item_type = ?1 AND item_id = ?2 AND state = 'OPEN'",
        )?
        .query_row(item, |row| row.get(0))
        .optional()?;
    Ok(match (open, attempt.missed) {
        (None, None) => None,
        (Some(open), Some(missed)) if open == missed.0 => None,
        (Some(open), _) => Some(format!("attempt {open} is open")),
        (None, Some(missed)) => Some(format!("attempt {} was taken over", missed.0)),
    })
}

fn open(c: &Connection, lane: &LaneName, new: &NewTurn, at: Us) -> rusqlite::Result<AttemptId> {
    let attempt = match new.missed {
        Some(missed) => {
            // Nothing was sent in the missed turn: it leaves the log.
            c.prepare_cached(
                "DELETE FROM send_log WHERE lane = ?1 AND attempt_id = ?2
                 AND turn_at = (SELECT turn_at FROM attempt WHERE attempt_id = ?2)",
            )?
            .execute(params![lane.as_str(), missed.0])?;
            c.prepare_cached("UPDATE attempt SET turn_at = ?2 WHERE attempt_id = ?1")?
                .execute(params![missed.0, at])?;
            missed
        }
        None => {
            c.prepare_cached(
                "INSERT INTO attempt (item_type, item_id, run, kind, state, lane,
                                      idempotency_key, turn_at, detail)
                 VALUES (?1, ?2, ?3, ?4, 'OPEN', ?5, ?6, ?7, '')",
            )?
            .execute(params![
                new.item.item_type.as_str(),
                new.item.id.as_str(),
                new.run,
                new.kind.as_str(),
                lane.as_str(),
                new.key,
                at
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
