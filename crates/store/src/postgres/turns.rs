//! Turns: a block of waiting attempts gets its exact times, in one transaction that holds the
//! lane's cursor.

use std::collections::{HashMap, HashSet};

use deadpool_postgres::Transaction;
use rust_decimal::Decimal;
use tokio_postgres::Row;
use tollgate_core::Timestamp;
use tollgate_core::gate::{Moment, Pace, ask_again_in, give_turns};
use tollgate_core::id::{Item, LaneName};
use tollgate_core::lane_in_force::Standing;
use tollgate_core::ports::{NewTurn, StoreResult, Turn, TurnBlock, TurnsWanted};

use super::open_attempts::open;
use super::run::{all, optional};
use super::value::{Count, Us};
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
    match (
        lane.as_ref(),
        Standing::of(lane.as_ref(), &wanted.lane, now),
    ) {
        (Some(lane), Standing::Open { until }) => {
            let moment = Moment {
                last_turn,
                now,
                lead: wanted.lead,
                closes_at: until,
            };
            let owned = owned(&wanted.attempts, &owners);
            let pace = lane.lane.pace(margin);
            give(tx, wanted, &owned, pace, moment, era.number).await
        }
        (_, Standing::Closed { why, until }) => {
            Ok(TurnBlock::closed(wanted.attempts.len(), why, until, now))
        }
        (None, Standing::Open { .. }) => unreachable!("a missing lane is closed"),
    }
}

/// The last turn that was given.
async fn lock_cursor(tx: &Transaction<'_>, lane: &LaneName) -> StoreResult<Option<Timestamp>> {
    const LOCK: &str = "SELECT last_turn FROM lane_cursor WHERE lane = $1 FOR UPDATE";
    let row = optional(tx, LOCK, &[&lane.as_str()]).await?;
    let last_turn = row.and_then(|row| row.get::<_, Option<Us>>(0));
    Ok(last_turn.map(|us| us.0))
}

/// An attempt that may go out.
struct Owned {
    /// But not after this time.
    hold_after: Option<Timestamp>,
}

/// What an attempt gets.
enum Given {
    At(Timestamp),
    TooLate,
    Later,
}

async fn give(
    tx: &Transaction<'_>,
    wanted: &TurnsWanted,
    owned: &[Result<Owned, String>],
    pace: Pace,
    moment: Moment,
    era: i64,
) -> StoreResult<TurnBlock> {
    let asking = wanted.attempts.iter().zip(owned);
    let planned: Vec<Timestamp> = asking
        .clone()
        .filter(|(_, owned)| owned.is_ok())
        .map(|(attempt, _)| attempt.planned)
        .collect();
    let mut times = give_turns(pace, moment, &planned).into_iter();
    let asking: Vec<(&NewTurn, Result<Given, &String>)> = asking
        .map(|(attempt, owned)| {
            let given = owned.as_ref().map(|owned| match times.next().flatten() {
                Some(at) if owned.hold_after.is_some_and(|limit| at > limit) => Given::TooLate,
                Some(at) => Given::At(at),
                None => Given::Later,
            });
            (attempt, given)
        })
        .collect();
    let given: Vec<(&NewTurn, Timestamp)> = asking
        .iter()
        .filter_map(|(attempt, given)| match given {
            Ok(Given::At(at)) => Some((*attempt, *at)),
            _ => None,
        })
        .collect();
    let opened = open(tx, &wanted.lane, &given, era).await?;
    let turns = asking.iter().map(|(attempt, given)| match given {
        Err(why) => Turn::NotYours((*why).clone()),
        Ok(Given::TooLate) => Turn::TooLate,
        Ok(Given::Later) => Turn::Later,
        Ok(Given::At(at)) => match opened.get(&attempt.item) {
            Some(attempt) => Turn::At {
                attempt: *attempt,
                at: *at,
            },
            None => Turn::NotYours("another attempt was opened meanwhile".into()),
        },
    });
    let later = asking.iter().find(|(_, g)| matches!(g, Ok(Given::Later)));
    let (now, last_given) = (moment.now, given.last().map(|(_, at)| *at));
    let last_turn = last_given.or(moment.last_turn);
    Ok(TurnBlock {
        now,
        era,
        turns: turns.collect(),
        ask_again_in: ask_again_in(pace, now, last_turn, later.map(|(a, _)| a.planned)),
    })
}

/// Who owns the items now, held until the turns are given, in the order of their keys.
async fn owners(tx: &Transaction<'_>, attempts: &[NewTurn]) -> StoreResult<HashMap<i64, Row>> {
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
    Ok(rows.into_iter().map(|row| (row.get(0), row)).collect())
}

fn owned(attempts: &[NewTurn], owners: &HashMap<i64, Row>) -> Vec<Result<Owned, String>> {
    let mut asked: HashSet<&Item> = HashSet::new();
    let owned = attempts.iter().zip(1..).map(|(attempt, n)| {
        if asked.insert(&attempt.item) {
            is_owned(attempt, owners.get(&n))
        } else {
            Err("another attempt asks for a turn at the same time".to_owned())
        }
    });
    owned.collect()
}

/// Or why it may not go out: the owner's token is checked here, when the turn is taken.
fn is_owned(attempt: &NewTurn, owner: Option<&Row>) -> Result<Owned, String> {
    let lost = |state: String| {
        Err(format!(
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
    if row.get(6) {
        return Err("an attempt has done it".to_owned());
    }
    match (row.get::<_, Option<i64>>(4), attempt.missed) {
        (Some(open), Some(missed)) if open == missed.0 => {}
        (None, None) => {}
        (Some(open), _) => return Err(format!("attempt {open} is open")),
        (None, Some(missed)) => return Err(format!("attempt {} was taken over", missed.0)),
    }
    let hold_after = row.get::<_, Option<Us>>(5).filter(|_| !attempt.may_be_late);
    let hold_after = hold_after.map(|us| us.0);
    Ok(Owned { hold_after })
}
