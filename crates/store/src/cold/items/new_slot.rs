//! Placing an item anew: its old room comes back, and it waits in another window.

use rust_decimal::Decimal;
use tollgate_core::Timestamp;
use tollgate_core::id::Item;
use tollgate_core::lane_in_force::{never_opens, no_such_lane};
use tollgate_core::ports::{
    ActionResult, Author, ItemState, StatusMove, StoreResult, cannot_replay,
};
use tollgate_core::slot::steady_random;

use super::operator_actions::{give_back, hold_plan_and_row, move_status};
use crate::cold::audit::audit_move;
use crate::sql::{Placement, Tx, Wish, params};

/// Another slot for an item, from `requested` on.
#[derive(Debug)]
pub(crate) struct NewSlot {
    pub(crate) item: Item,
    pub(crate) requested: Timestamp,
    pub(crate) how: How,
    pub(crate) author: Author,
}

/// What a person wants of it.
#[derive(Debug)]
pub(crate) enum How {
    Reschedule,
    /// It has ended, and its record moves back.
    Reopen(StatusMove),
    /// It is held. Released with others, it waits for a slot like them.
    Release,
    /// It was given up. Replayed with others, it waits for a slot like them.
    Replay,
}

impl NewSlot {
    fn refusal(&self, found: &ItemState) -> Option<String> {
        match &self.how {
            How::Reschedule => found.refuses_reschedule(),
            How::Reopen(status) => found.refuses_reopen(status),
            How::Release => found.refuses_release(),
            How::Replay => cannot_replay(found.queue_status),
        }
    }

    /// As the audit log calls it.
    fn action(&self) -> &'static str {
        match &self.how {
            How::Reschedule => "RESCHEDULED",
            How::Reopen(_) => "REOPENED",
            How::Release => "RELEASED",
            How::Replay => "REPLAYED",
        }
    }
}

pub(crate) async fn place(tx: &Tx, anew: &NewSlot, margin: Decimal) -> StoreResult<ActionResult> {
    let item = &anew.item;
    let Some(found) = hold_plan_and_row(tx, item).await? else {
        return Ok(ActionResult::NoSuchItem);
    };
    if let Some(why) = anew.refusal(&found) {
        return Ok(ActionResult::Refused(why));
    }
    let now = tx.now().await?;
    let from = anew.requested.max(now);
    let wish = Wish {
        lane: found.lane.clone(),
        from,
        random: steady_random(&item.id),
        margin,
    };
    let (place, generation) = match tx.place(wish).await? {
        Placement::At { place, generation } => (place, generation),
        Placement::NoSuchLane => return Ok(ActionResult::Refused(no_such_lane(&found.lane))),
        Placement::Never => {
            let why = never_opens(&found.lane, anew.requested);
            return Ok(ActionResult::Refused(why));
        }
    };
    give_back(tx, item, now).await?;
    let slot = [place.window, place.scheduled, anew.requested];
    match &anew.how {
        How::Reschedule => move_row(tx, anew, slot, generation).await,
        How::Reopen(status) => {
            move_row(tx, anew, slot, generation).await;
            move_status(tx, item, &found.record_status, status).await;
            reopen(tx, item).await;
        }
        How::Release => release_row(tx, anew, slot, generation).await,
        How::Replay => {
            move_row(tx, anew, slot, generation).await;
            forget_failures(tx, item).await;
        }
    }
    let before = found.queue_status.as_str();
    audit_move(tx, item, anew.action(), before, "READY", &anew.author).await;
    Ok(ActionResult::Yes)
}

/// One that was HELD for its deadline is not held for it again: a person has decided. It is another run: a flow that was
/// started for the old time, and has not had its turn yet, finds it taken.
async fn move_row(tx: &Tx, anew: &NewSlot, slot: [Timestamp; 3], generation: i64) {
    const MOVE: &str = "UPDATE item_queue SET window_start = $3, scheduled_time = $4,
                requested_time = $5, generation = $6, queue_status = 'READY',
                scheduled_exec_time = $4, last_error = NULL,
                hold_after = CASE WHEN queue_status = 'HELD' AND held_by IS NULL THEN NULL
                                  ELSE hold_after END,
                held_by = NULL,
                retry_count = CASE queue_status WHEN 'DEAD' THEN 0 ELSE retry_count END,
                run = run + 1, finished_at = NULL, claimed_at = NULL, dispatched_at = NULL
         WHERE item_type = $1 AND item_id = $2";
    let (kind, id) = (&anew.item.item_type, &anew.item.id);
    let [window, scheduled, requested] = slot;
    let moved = params![kind, id, window, scheduled, requested, generation];
    tx.execute(MOVE, moved).await;
}

/// As a single release, but at its slot: the rules that hold it are passed, and a deadline before its slot
/// does not hold it again.
async fn release_row(tx: &Tx, anew: &NewSlot, slot: [Timestamp; 3], generation: i64) {
    const RELEASE: &str = "UPDATE item_queue SET window_start = $3, scheduled_time = $4,
                requested_time = $5, generation = $6, queue_status = 'READY', run = run + 1,
                scheduled_exec_time = $4,
                hold_after = CASE WHEN held_by IS NULL OR hold_after < $4 THEN NULL
                                  ELSE hold_after END,
                passed_rules = trim(coalesce(passed_rules, '') || ' ' || coalesce(held_by, '')),
                held_by = NULL, last_error = NULL
         WHERE item_type = $1 AND item_id = $2 AND queue_status = 'HELD'";
    let (kind, id) = (&anew.item.item_type, &anew.item.id);
    let [window, scheduled, requested] = slot;
    let released = params![kind, id, window, scheduled, requested, generation];
    tx.execute(RELEASE, released).await;
}

/// Its next failure is its first again.
async fn forget_failures(tx: &Tx, item: &Item) {
    const FORGET: &str = "UPDATE item_queue SET failures = 0 WHERE item_type = $1 AND item_id = $2";
    tx.execute(FORGET, params![&item.item_type, &item.id]).await;
}

/// What was refused stays so, and makes way for another key.
async fn reopen(tx: &Tx, item: &Item) {
    const REOPEN: &str = "UPDATE attempt SET reopened = true
         WHERE item_type = $1 AND item_id = $2 AND state = 'REFUSED'";
    tx.execute(REOPEN, params![&item.item_type, &item.id]).await;
}
