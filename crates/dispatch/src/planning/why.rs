//! "Why is this not running?": names the constraint that binds, and when it lifts.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::item::QueueStatus;
use tollgate_core::lane_in_force::{LaneInForce, LaneState};
use tollgate_core::ports::ItemView;

use crate::dispatching::item_types::SwitchedOff;
use crate::planning::forecaster::exchange;

/// A flow that was to begin so long ago and has not ended is looked into.
const OVERDUE_AFTER: Duration = Duration::from_secs(5);

/// Whether an item's flow should have been over by now: then it is worth asking if anybody works on it.
pub fn is_overdue(item: &ItemView, now: Timestamp) -> bool {
    item.queue_status == QueueStatus::Dispatched && item.due + OVERDUE_AFTER < now
}

/// Whether nothing that the store knows of holds an item: it is due, and waits for a dispatcher. Then it is
/// worth asking if there is one.
pub fn waits_for_dispatch(
    item: &ItemView,
    lane: Option<&LaneInForce>,
    off: Option<&SwitchedOff>,
    now: Timestamp,
) -> bool {
    let is_due = item.queue_status == QueueStatus::Ready && item.due <= now;
    let lane = LaneState::of(lane, &item.lane, now);
    is_due && off.is_none() && matches!(lane, LaneState::Open { .. })
}

pub const ENGINE_IS_AWAY: &str = "the engine cannot be reached; it resumes by itself";

pub const NOBODY_DISPATCHES: &str = "no process has the role dispatch; start one";

/// The engine has the flow, and no process that could run it.
pub fn nobody_runs_it(task_queue: &str) -> String {
    format!("no process polls the task queue {task_queue}; start one with the role exec")
}

/// What binds an item, and when that lifts; `None` once it has ended. `turn`: when it is sent, if that can be
/// told.
pub fn why_not_running(
    item: &ItemView,
    lane: Option<&LaneInForce>,
    off: Option<&SwitchedOff>,
    turn: Option<Timestamp>,
    now: Timestamp,
) -> Option<String> {
    if item.finished_at.is_some() {
        return None;
    }
    let because = item
        .last_error
        .as_deref()
        .map(|e| format!(" ({e})"))
        .unwrap_or_default();
    let about = turn.map_or(String::new(), |turn| format!(", at about {turn}"));
    Some(match item.queue_status {
        QueueStatus::Cancelled => "it was cancelled".to_owned(),
        QueueStatus::Dead => format!("it is DEAD and can be replayed{because}"),
        QueueStatus::Held => format!("it needs a decision{because}"),
        QueueStatus::Dispatched if let Some(sent) = exchange(item) => match sent.settled_at {
            None => format!("it was sent at {} and awaits the answer", sent.turn_at),
            Some(settled) => format!("it was answered at {settled}, and its flow is ending"),
        },
        QueueStatus::Ready if let Some(off) = off => off.sentence(&item.item.item_type),
        QueueStatus::Ready | QueueStatus::Claimed | QueueStatus::Dispatched => {
            match LaneState::of(lane, &item.lane, now) {
                LaneState::Closed { why, until: None } => why,
                LaneState::Closed {
                    why,
                    until: Some(until),
                } => format!("{why}; it opens at {until}"),
                LaneState::Open { .. } if item.due > now && item.due == item.slot => {
                    format!("its slot is at {}", item.due)
                }
                LaneState::Open { .. } if item.due > now => {
                    format!("it waits until {}{because}", item.due)
                }
                LaneState::Open { .. } => format!("it is due and waits for its turn{about}"),
            }
        }
    })
}
