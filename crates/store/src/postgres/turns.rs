//! Turns: a block of waiting attempts gets its exact times, in one transaction that holds the
//! lane's cursor.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use deadpool_postgres::Transaction;
use rust_decimal::Decimal;
use tokio_postgres::Row;
use tollgate_core::Timestamp;
use tollgate_core::gate::{HORIZON, Moment, Pace, give_turns};
use tollgate_core::id::{Item, LaneName};
use tollgate_core::lane::Lane;
use tollgate_core::ports::{NewTurn, StoreResult, Turn, TurnBlock, TurnsWanted};

use super::lanes;
use super::open_attempts::open;
use super::run::{all, now, optional};
use super::value::{Count, Us, micros, until};

/// A lane that sends nothing is asked about again after this time at the earliest.
const CLOSED_PAUSE: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

struct Cursor {
    last_turn: Option<Timestamp>,
    closed_until: Option<i64>,
}

pub(super) async fn take(
    tx: &Transaction<'_>,
    wanted: &TurnsWanted,
    margin: Decimal,
) -> StoreResult<TurnBlock> {
    let cursor = lock_cursor(tx, &wanted.lane).await?;
    // Sent together. The clock is read under the cursor's lock, and behind the owners' unless a
    // statement is still being prepared on this connection; then a turn may merely be missed.
    let (owners, lane, now) = futures::try_join!(
        owners(tx, &wanted.attempts),
        lanes::lane(tx, &wanted.lane),
        now(tx)
    )?;
    let now = now.0;
    let lane = match is_open(&wanted.lane, lane, &cursor, now) {
        Ok(lane) => lane,
        Err(Closed { why, for_at_least }) => {
            let closed = Turn::Closed { why, for_at_least };
            return Ok(TurnBlock {
                now,
                turns: vec![closed; wanted.attempts.len()],
                ask_again_in: for_at_least,
            });
        }
    };
    let refusals = refusals(&wanted.attempts, &owners);
    give(
        tx,
        wanted,
        &refusals,
        lane.pace(margin),
        cursor.last_turn,
        now,
    )
    .await
}

async fn lock_cursor(tx: &Transaction<'_>, lane: &LaneName) -> StoreResult<Cursor> {
    const LOCK: &str = "SELECT last_turn, closed_until FROM lane_cursor WHERE lane = $1 FOR UPDATE";
    let row = optional(tx, LOCK, &[&lane.as_str()]).await?;
    let last_turn = row.as_ref().and_then(|row| row.get::<_, Option<Us>>(0));
    Ok(Cursor {
        last_turn: last_turn.map(|us| us.0),
        closed_until: row.and_then(|row| row.get(1)),
    })
}

struct Closed {
    why: String,
    for_at_least: Duration,
}

fn is_open(
    name: &LaneName,
    lane: Option<Lane>,
    cursor: &Cursor,
    now: Timestamp,
) -> Result<Lane, Closed> {
    let closed = |why: String, for_at_least| Closed { why, for_at_least };
    let Some(lane) = lane else {
        return Err(closed(
            format!("lane \"{name}\" does not exist"),
            CLOSED_PAUSE,
        ));
    };
    if let Some(pause) = &lane.pause {
        let (actor, reason) = (&pause.actor, &pause.reason);
        let why = format!("lane \"{name}\" is paused by {actor}: {reason}");
        return Err(closed(why, CLOSED_PAUSE));
    }
    let left = cursor
        .closed_until
        .map(|then| until(now.as_microsecond(), then));
    match left.filter(|left| !left.is_zero()) {
        Some(left) => Err(closed(
            format!("lane \"{name}\" is closed by its downstream"),
            left,
        )),
        None => Ok(lane),
    }
}

async fn give(
    tx: &Transaction<'_>,
    wanted: &TurnsWanted,
    refusals: &[Option<String>],
    pace: Pace,
    last_turn: Option<Timestamp>,
    now: Timestamp,
) -> StoreResult<TurnBlock> {
    let asking = wanted.attempts.iter().zip(refusals);
    let planned: Vec<Timestamp> = asking
        .clone()
        .filter(|(_, refusal)| refusal.is_none())
        .map(|(attempt, _)| attempt.planned)
        .collect();
    let moment = Moment {
        last_turn,
        now,
        lead: wanted.lead,
    };
    let mut times = give_turns(pace, moment, &planned).into_iter();
    let asking: Vec<(&NewTurn, Result<Option<Timestamp>, &String>)> = asking
        .map(|(attempt, refusal)| match refusal {
            Some(why) => (attempt, Err(why)),
            None => (attempt, Ok(times.next().flatten())),
        })
        .collect();
    let given: Vec<(&NewTurn, Timestamp)> = asking
        .iter()
        .filter_map(|(attempt, time)| Some((*attempt, (*time).ok()??)))
        .collect();
    let opened = open(tx, &wanted.lane, &given).await?;
    let turns = asking.iter().map(|(attempt, time)| match time {
        Err(why) => Turn::NotYours((*why).clone()),
        Ok(None) => Turn::Later,
        Ok(Some(at)) => match opened.get(&attempt.item) {
            Some(attempt) => Turn::At {
                attempt: *attempt,
                at: *at,
            },
            None => Turn::NotYours("another attempt was opened meanwhile".into()),
        },
    });
    let first_later = asking.iter().find(|(_, time)| matches!(time, Ok(None)));
    let reserved_until = given.last().map(|(_, at)| *at).or(last_turn).unwrap_or(now);
    Ok(TurnBlock {
        now,
        turns: turns.collect(),
        ask_again_in: ask_again(
            now,
            reserved_until,
            first_later.map_or(now, |(a, _)| a.planned),
        ),
    })
}

/// When half the horizon is free again, so that a busy lane takes its turns in blocks; or when
/// the next plan comes into reach.
fn ask_again(now: Timestamp, reserved_until: Timestamp, planned: Timestamp) -> Duration {
    let free = reserved_until.as_microsecond() - micros(HORIZON) / 2;
    let reach = planned.as_microsecond() - micros(HORIZON) / 2;
    until(now.as_microsecond(), free.max(reach)).max(SHORTEST_PAUSE)
}

/// Who owns the items now, held until the turns are given, in the order of their keys.
async fn owners(tx: &Transaction<'_>, attempts: &[NewTurn]) -> StoreResult<HashMap<i64, Row>> {
    const OWNERS: &str =
        "SELECT w.n, q.queue_status, q.run, q.finished_at IS NOT NULL, a.attempt_id
         FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (item_type, item_id, n)
         JOIN item_queue q ON q.item_type = w.item_type AND q.item_id = w.item_id
         LEFT JOIN attempt a ON a.item_type = q.item_type AND a.item_id = q.item_id
                            AND a.state = 'OPEN'
         ORDER BY q.item_type, q.item_id FOR SHARE OF q";
    let types: Vec<&str> = attempts.iter().map(|a| a.item.item_type.as_str()).collect();
    let ids: Vec<&str> = attempts.iter().map(|a| a.item.id.as_str()).collect();
    let rows = all(tx, OWNERS, &[&types, &ids]).await?;
    Ok(rows.into_iter().map(|row| (row.get(0), row)).collect())
}

fn refusals(attempts: &[NewTurn], owners: &HashMap<i64, Row>) -> Vec<Option<String>> {
    let mut asked: HashSet<&Item> = HashSet::new();
    let refusals = attempts.iter().zip(1..).map(|(attempt, n)| {
        if asked.insert(&attempt.item) {
            refusal(attempt, owners.get(&n))
        } else {
            Some("another attempt asks for a turn at the same time".to_owned())
        }
    });
    refusals.collect()
}

/// Why this attempt may not go out: the owner's token is checked here, when the turn is taken.
fn refusal(attempt: &NewTurn, owner: Option<&Row>) -> Option<String> {
    let lost = |state: String| {
        Some(format!(
            "run {} no longer owns the item, which is {state}",
            attempt.run
        ))
    };
    let Some(row) = owner else {
        return lost("gone".to_owned());
    };
    let (status, run): (&str, u32) = (row.get(1), row.get::<_, Count>(2).0);
    let is_theirs = run == attempt.run && matches!(status, "CLAIMED" | "DISPATCHED");
    if !is_theirs || row.get(3) {
        return lost(format!("{status}, run {run}"));
    }
    match (row.get::<_, Option<i64>>(4), attempt.missed) {
        (None, None) => None,
        (Some(open), Some(missed)) if open == missed.0 => None,
        (Some(open), _) => Some(format!("attempt {open} is open")),
        (None, Some(missed)) => Some(format!("attempt {} was taken over", missed.0)),
    }
}
