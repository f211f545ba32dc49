//! Why an item is not running: what the store tells, and what only the engine knows.

use tollgate_core::Timestamp;
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::ItemView;
use tollgate_dispatch::{
    DISPATCH_TASK_QUEUE, ENGINE_IS_AWAY, NOBODY_DISPATCHES, is_overdue, nobody_runs_it,
    waits_for_dispatch, why_not_running,
};

use super::App;

/// `dispatch`: whether items of its type are dispatched, and onto which task queue.
pub(super) async fn why(
    app: &App,
    view: &ItemView,
    lane: Option<&LaneInForce>,
    dispatch: (bool, &str),
    now: Timestamp,
) -> Option<String> {
    let (enabled, task_queue) = dispatch;
    if waits_for_dispatch(view, lane, enabled, now) {
        if app.engine.trouble().is_some() {
            return Some(ENGINE_IS_AWAY.to_owned());
        }
        if app.engine.nobody_works_on(DISPATCH_TASK_QUEUE).await {
            return Some(NOBODY_DISPATCHES.to_owned());
        }
    }
    if is_overdue(view, now) && app.engine.nobody_works_on(task_queue).await {
        return Some(nobody_runs_it(task_queue));
    }
    why_not_running(view, lane, enabled, now)
}
