//! Opening attempts: each with its turn, and the lane's cursor moved past them.

use std::collections::HashMap;

use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use tollgate_core::Timestamp;
use tollgate_core::id::{AttemptId, Epoch, Item, ItemId, ItemType, LaneName};
use tollgate_core::ports::{NewTurn, StoreResult, TurnsWanted};

use crate::postgres::connection::run::{Params, all, execute};
use crate::postgres::connection::value::Us;

/// Opens the attempts and moves the cursor. Whoever is missing from the answer
/// was overtaken. The last line of defence: nothing is opened beside an open attempt, and of two that are
/// opened at once both have the next number, which is unique. The item's lock keeps it from coming to that; a
/// conflict would fail the block, and its senders look again (`connection/error.rs`). `ON CONFLICT` would cost a record in the log
/// for each row.
pub(super) async fn open(
    tx: &Transaction<'_>,
    wanted: &TurnsWanted,
    given: &[(&NewTurn, Timestamp)],
    (era, epoch): (i64, Option<Epoch>),
) -> StoreResult<HashMap<Item, AttemptId>> {
    const MOVE: &str = "UPDATE lane_cursor SET last_turn = $2 WHERE lane = $1";
    let Some((_, last)) = given.last() else {
        return Ok(HashMap::new());
    };
    let lane = &wanted.lane;
    let (missed, new): (Vec<_>, Vec<_>) = given.iter().partition(|(a, _)| a.missed.is_some());
    let (lane_name, last) = (lane.as_str(), Us(*last));
    let moved: Params<'_> = &[&lane_name, &last];
    let (_, mut opened, again) = futures::try_join!(
        execute(tx, MOVE, moved),
        open_new(tx, wanted, &new, (era, epoch)),
        open_again(tx, lane, &missed, (era, epoch)),
    )?;
    opened.extend(again);
    Ok(opened)
}

async fn open_new(
    tx: &Transaction<'_>,
    wanted: &TurnsWanted,
    new: &[&(&NewTurn, Timestamp)],
    (era, epoch): (i64, Option<Epoch>),
) -> StoreResult<HashMap<Item, AttemptId>> {
    const OPEN: &str = "INSERT INTO attempt (item_type, item_id, number, run, kind, state, lane,
                 idempotency_key, turn_at, era, detail, watch_id, epoch)
         SELECT n.item_type, n.item_id, coalesce(past.latest, 0) + 1, n.run, n.kind, 'OPEN', $1,
                n.key, n.turn_at, $8, '', $9, $10::bigint
         FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::bigint[])
              AS n (item_type, item_id, run, kind, key, turn_at)
         CROSS JOIN LATERAL (SELECT max(a.number) AS latest, bool_or(a.state = 'OPEN') AS is_open
              FROM attempt a WHERE a.item_type = n.item_type AND a.item_id = n.item_id) past
         WHERE past.is_open IS NOT TRUE
         RETURNING item_type, item_id, attempt_id";
    if new.is_empty() {
        return Ok(HashMap::new());
    }
    let texts = |of: fn(&NewTurn) -> &str| new.iter().map(|(a, _)| of(a)).collect::<Vec<_>>();
    let runs: Vec<i64> = new.iter().map(|(a, _)| i64::from(a.run)).collect();
    let times: Vec<Us> = new.iter().map(|(_, at)| Us(*at)).collect();
    let params: Params<'_> = &[
        &wanted.lane.as_str(),
        &texts(|a| a.item.item_type.as_str()),
        &texts(|a| a.item.id.as_str()),
        &runs,
        &texts(|a| a.kind.as_str()),
        &texts(|a| &a.key),
        &times,
        &era,
        &wanted.watch.map(|watch| watch.0),
        &epoch.map(|epoch| epoch.0),
    ];
    Ok(all(tx, OPEN, params)
        .await?
        .iter()
        .map(opened_from)
        .collect())
}

/// Nothing was sent in a missed turn: the attempt gets another instead.
async fn open_again(
    tx: &Transaction<'_>,
    lane: &LaneName,
    missed: &[&(&NewTurn, Timestamp)],
    (era, epoch): (i64, Option<Epoch>),
) -> StoreResult<HashMap<Item, AttemptId>> {
    const AGAIN: &str = "WITH open AS MATERIALIZED (
             SELECT a.attempt_id, n.turn_at
             FROM unnest($2::bigint[], $3::bigint[]) AS n (attempt_id, turn_at)
             JOIN attempt a ON a.attempt_id = n.attempt_id
             WHERE a.lane = $1 AND a.state = 'OPEN' FOR UPDATE OF a
         )
         UPDATE attempt a SET turn_at = open.turn_at, era = $4, epoch = $5::bigint FROM open
         WHERE a.attempt_id = open.attempt_id
         RETURNING a.item_type, a.item_id, a.attempt_id";
    if missed.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<Option<i64>> = missed
        .iter()
        .map(|(a, _)| a.missed.map(|id| id.0))
        .collect();
    let times: Vec<Us> = missed.iter().map(|(_, at)| Us(*at)).collect();
    let epoch = epoch.map(|epoch| epoch.0);
    let rows = all(tx, AGAIN, &[&lane.as_str(), &ids, &times, &era, &epoch]).await?;
    Ok(rows.iter().map(opened_from).collect())
}

fn opened_from(row: &Row) -> (Item, AttemptId) {
    let (kind, id): (String, String) = (row.get(0), row.get(1));
    let item = Item::new(&ItemType::new(kind), &ItemId::new(id));
    (item, AttemptId(row.get(2)))
}
