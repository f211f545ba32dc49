//! "Why is this not running?": names the constraint that binds, and when it lifts.

use tollgate_core::Timestamp;
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{ItemView, LaneVersion};

/// `None` while the item runs or when it has ended.
pub fn why_not_running(
    item: &ItemView,
    lane: Option<&LaneVersion>,
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
        QueueStatus::Ready if !enabled => Some(format!(
            "dispatch of {} is switched off",
            item.item.item_type
        )),
        QueueStatus::Ready => {
            let name = &item.lane;
            let Some(lane) = lane else {
                return Some(format!("lane \"{name}\" does not exist"));
            };
            if let Some(pause) = &lane.lane.pause {
                let (actor, reason) = (&pause.actor, &pause.reason);
                return Some(format!("lane \"{name}\" is paused by {actor}: {reason}"));
            }
            if let Some(left) = lane.closed_for {
                return Some(format!(
                    "lane \"{name}\" is closed by its downstream for {left:.0?}"
                ));
            }
            if item.due > now {
                return Some(match item.run {
                    0 | 1 => format!("its slot is at {}", item.due),
                    _ => format!("it waits until {}{because}", item.due),
                });
            }
            Some("it is due and waits for room on its lane".to_owned())
        }
    }
}
