//! Placing an item anew: its old room comes back, and it waits in another window.

use rusqlite::{Connection, params};
use rust_decimal::Decimal;
use tollgate_core::id::Item;
use tollgate_core::lane_in_force::{never_opens, no_such_lane};
use tollgate_core::ports::{Intervened, StatusMove};
use tollgate_core::slot::{Place, steady_random};

use super::counters::Plan;
use super::interventions::{audit_move, found, give_back};
use super::lanes;
use super::records::move_status;
use super::value::Us;
use crate::anew::Anew;

pub(super) fn place(
    c: &Connection,
    anew: &Anew,
    margin: Decimal,
    now: Us,
) -> rusqlite::Result<Intervened> {
    let Some(found) = found(c, &anew.item)? else {
        return Ok(Intervened::NoSuchItem);
    };
    if let Some(why) = anew.refusal(&found) {
        return Ok(Intervened::Refused(why));
    }
    let Some(lane) = lanes::in_force(c, &found.lane)? else {
        return Ok(Intervened::Refused(no_such_lane(&found.lane)));
    };
    let mut plan = Plan::of(c, &lane, margin)?;
    let from = anew.requested.max(now.0);
    let Some(place) = plan.place(from, steady_random(&anew.item.id))? else {
        let why = never_opens(&found.lane, anew.requested);
        return Ok(Intervened::Refused(why));
    };
    let generation = plan.generation();
    plan.write_back()?;
    give_back(c, &anew.item, now)?;
    make_ready(c, anew, place, generation)?;
    if let Some(status) = &anew.reopened {
        reopen(c, &anew.item, status, now)?;
    }
    let before = found.queue_status.as_str();
    let (action, author) = (anew.action(), &anew.author);
    audit_move(c, &anew.item, action, before, "READY", author, now)?;
    Ok(Intervened::Yes)
}

/// One that was HELD for its deadline is not held for it again: a person has decided. It is another run: a flow that was
/// started for the old time, and has not had its turn yet, finds it taken.
fn make_ready(c: &Connection, anew: &Anew, place: Place, generation: i64) -> rusqlite::Result<()> {
    c.prepare_cached(
        "UPDATE item_queue SET window_start = ?3, scheduled_time = ?4, requested_time = ?5,
                generation = ?6, queue_status = 'READY', scheduled_exec_time = ?4, last_error = NULL,
                hold_after = CASE WHEN queue_status = 'HELD' AND held_by IS NULL THEN NULL
                                  ELSE hold_after END,
                held_by = NULL,
                retry_count = CASE queue_status WHEN 'DEAD' THEN 0 ELSE retry_count END,
                run = run + 1, finished_at = NULL, claimed_at = NULL, dispatched_at = NULL
         WHERE item_type = ?1 AND item_id = ?2",
    )?
    .execute(params![
        anew.item.item_type.as_str(),
        anew.item.id.as_str(),
        Us(place.window),
        Us(place.scheduled),
        Us(anew.requested),
        generation
    ])
    .map(drop)
}

/// What was refused stays so, and makes way for another key.
fn reopen(c: &Connection, item: &Item, status: &StatusMove, now: Us) -> rusqlite::Result<()> {
    move_status(c, item, status, now)?;
    c.prepare_cached(
        "UPDATE attempt SET reopened = 1
         WHERE item_type = ?1 AND item_id = ?2 AND state = 'REFUSED'",
    )?
    .execute(params![item.item_type.as_str(), item.id.as_str()])
    .map(drop)
}
