//! Placing an item anew: its old room comes back, and it waits in another window.

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;
use rust_decimal::Decimal;
use tollgate_core::lane_in_force::{never_opens, no_such_lane};
use tollgate_core::ports::{Intervened, StoreResult};
use tollgate_core::slot::{Place, steady_random};

use super::counters::write_back;
use super::interventions::{audit_move, give_back, hold_plan_and_row};
use super::run::{Params, execute, now};
use super::value::Us;
use crate::anew::Anew;

pub(super) async fn place(
    tx: &Transaction<'_>,
    anew: &Anew,
    margin: Decimal,
) -> StoreResult<Intervened> {
    let Some((found, plan)) = hold_plan_and_row(tx, &anew.item, margin).await? else {
        return Ok(Intervened::NoSuchItem);
    };
    if let Some(why) = anew.refusal(&found) {
        return Ok(Intervened::Refused(why));
    }
    let Some(mut plan) = plan else {
        return Ok(Intervened::Refused(no_such_lane(&found.lane)));
    };
    let from = anew.requested.max(now(tx).await?.0);
    let place = plan.place(tx, &found.lane, from, steady_random(&anew.item.id));
    let Some(place) = place.await? else {
        let why = never_opens(&found.lane, anew.requested);
        return Ok(Intervened::Refused(why));
    };
    let generation = plan.generation;
    write_back(tx, BTreeMap::from([(found.lane.clone(), plan)]).iter()).await?;
    give_back(tx, &anew.item).await?;
    move_rows(tx, anew, place, generation).await?;
    audit_move(tx, &anew.item, anew.action(), &found, "READY", &anew.author).await?;
    Ok(Intervened::Yes)
}

/// One that was HELD for its deadline is not held for it again: a person has decided. It is another run: a flow that was
/// started for the old time, and has not had its turn yet, finds it taken. Of what is reopened, what was refused
/// stays so, and makes way for another key.
async fn move_rows(
    tx: &Transaction<'_>,
    anew: &Anew,
    place: Place,
    generation: i64,
) -> StoreResult<()> {
    const MOVE: &str = "WITH asked_again AS (
             UPDATE attempt SET reopened = true
             WHERE item_type = $1 AND item_id = $2 AND state = 'REFUSED' AND $7
         )
         UPDATE item_queue SET window_start = $3, scheduled_time = $4, requested_time = $5,
                generation = $6,
                status = CASE WHEN status = ANY($9) THEN $8 ELSE status END,
                updated_at = CASE WHEN status = ANY($9) THEN tg_now() ELSE updated_at END,
                queue_status = 'READY', scheduled_exec_time = $4, last_error = NULL,
                hold_after = CASE WHEN queue_status = 'HELD' AND held_by IS NULL THEN NULL
                                  ELSE hold_after END,
                held_by = NULL,
                retry_count = CASE queue_status WHEN 'DEAD' THEN 0 ELSE retry_count END,
                run = run + 1, finished_at = NULL, claimed_at = NULL, dispatched_at = NULL
         WHERE item_type = $1 AND item_id = $2";
    let reopened = anew.reopened.as_ref();
    let to = reopened.map(|status| status.to.as_str());
    let from: &[String] = reopened.map_or(&[], |status| &status.from);
    let params: Params<'_> = &[
        &anew.item.item_type.as_str(),
        &anew.item.id.as_str(),
        &Us(place.window),
        &Us(place.scheduled),
        &Us(anew.requested),
        &generation,
        &reopened.is_some(),
        &to,
        &from,
    ];
    execute(tx, MOVE, params).await.map(drop)
}
