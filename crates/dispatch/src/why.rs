//! "Why is this not running?": names the constraint that binds, and when it lifts.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::item::QueueStatus;
use tollgate_core::lane_in_force::{LaneInForce, Standing};
use tollgate_core::ports::ItemView;

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
    enabled: bool,
    now: Timestamp,
) -> bool {
    let is_due = item.queue_status == QueueStatus::Ready && item.due <= now;
    let lane = Standing::of(lane, &item.lane, now);
    is_due && enabled && matches!(lane, Standing::Open { .. })
}

pub const ENGINE_IS_AWAY: &str =
    "the engine cannot be reached, and starts nothing meanwhile; it goes on by itself";

pub const NOBODY_DISPATCHES: &str = "nobody dispatches; start a process with the role dispatch";

/// The engine has the flow, and no process that could run it.
pub fn nobody_runs_it(task_queue: &str) -> String {
    format!(
        "nobody works on the task queue {task_queue}, where its flow waits; start a process with the role exec"
    )
}

/// `None` while the item runs or when it has ended.
pub fn why_not_running(
    item: &ItemView,
    lane: Option<&LaneInForce>,
    enabled: bool,
    now: Timestamp,
) -> Option<String> {
    let because = item
        .last_error
        .as_deref()
        .map(|e| format!(" ({e})"))
        .unwrap_or_default();
    match item.queue_status {
        QueueStatus::Claimed | QueueStatus::Dispatched => None,
        QueueStatus::Cancelled => Some("it was cancelled".to_owned()),
        QueueStatus::Dead => Some(format!("it is dead and waits for a replay{because}")),
        QueueStatus::Held => Some(format!("it waits for a person{because}")),
        QueueStatus::Ready if !enabled => Some(format!(
            "dispatch of {} is switched off",
            item.item.item_type
        )),
        QueueStatus::Ready => Some(match Standing::of(lane, &item.lane, now) {
            Standing::Closed { why, until: None } => why,
            Standing::Closed {
                why,
                until: Some(until),
            } => format!("{why}; it opens at {until}"),
            Standing::Open { .. } if item.due > now => match (item.run, &item.last_error) {
                (0 | 1, None) => format!("its slot is at {}", item.due),
                _ => format!("it waits until {}{because}", item.due),
            },
            Standing::Open { .. } => "it is due and waits for room on its lane".to_owned(),
        }),
    }
}
