//! The turn of a call that belongs to no item, in a transaction that holds the lane's cursor.

use deadpool_postgres::Transaction;
use rust_decimal::Decimal;
use tollgate_core::Timestamp;
use tollgate_core::call_turn::give_call_turn;
use tollgate_core::gate::Moment;
use tollgate_core::id::Epoch;
use tollgate_core::lane_in_force::{LaneState, no_such_lane};
use tollgate_core::ports::{CallGiven, CallTurn, CallWanted, StoreResult};

use super::eras;
use crate::postgres::connection::run::{execute, optional};
use crate::postgres::connection::value::Us;
use crate::postgres::lanes;

pub(super) async fn take(
    tx: &Transaction<'_>,
    wanted: &CallWanted,
    margin: Decimal,
    epoch: Option<Epoch>,
) -> StoreResult<CallTurn> {
    let (last_turn, last_call) = lock_cursor(tx, wanted.lane.as_str()).await?;
    let (lane, (now, era)) = futures::try_join!(lanes::lane(tx, &wanted.lane), eras::now(tx))?;
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
    let moment = Moment {
        last_turn,
        now,
        lead: wanted.lead,
        closes_at,
    };
    let given = give_call_turn(lane.lane.pace(margin), wanted.share, moment, last_call);
    if let CallGiven::At(at) = given {
        log(tx, wanted.lane.as_str(), Us(at), era.number, epoch).await?;
    }
    Ok(CallTurn { now, given })
}

/// The last turn of all, and the last of a call.
async fn lock_cursor(
    tx: &Transaction<'_>,
    lane: &str,
) -> StoreResult<(Option<Timestamp>, Option<Timestamp>)> {
    const LOCK: &str = "SELECT last_turn, last_call FROM lane_cursor WHERE lane = $1 FOR UPDATE";
    let Some(row) = optional(tx, LOCK, &[&lane]).await? else {
        return Ok((None, None));
    };
    let time = |column: usize| row.get::<_, Option<Us>>(column).map(|us| us.0);
    Ok((time(0), time(1)))
}

async fn log(
    tx: &Transaction<'_>,
    lane: &str,
    at: Us,
    era: i64,
    epoch: Option<Epoch>,
) -> StoreResult<()> {
    const MOVE: &str = "UPDATE lane_cursor SET last_turn = $2, last_call = $2 WHERE lane = $1";
    const LOG: &str = "INSERT INTO attempt (item_type, item_id, run, kind, state, lane,
                 idempotency_key, turn_at, era, epoch, detail)
         VALUES ('', '', 0, 'CALL', 'CALL', $1, '', $2, $3, $4, '')";
    execute(tx, MOVE, &[&lane, &at]).await?;
    let epoch = epoch.map(|epoch| epoch.0);
    execute(tx, LOG, &[&lane, &at, &era, &epoch])
        .await
        .map(drop)
}
