//! Why an item is not running: what the store tells, and what only the engine knows.

use tollgate_core::Timestamp;
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::{ItemView, RequestView};
use tollgate_dispatch::{
    DISPATCH_TASK_QUEUE, ENGINE_IS_AWAY, NOBODY_DISPATCHES, is_overdue, nobody_runs_it,
    waits_for_dispatch, why_not_running,
};
use tollgate_domains::payments::INIT_TASK_QUEUE;

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

/// Why a payment that was accepted is not planned yet.
pub(super) async fn why_unplanned(app: &App, request: &RequestView) -> String {
    if app.engine.trouble().is_some() {
        return ENGINE_IS_AWAY.to_owned();
    }
    if app.engine.nobody_works_on(INIT_TASK_QUEUE).await {
        return format!(
            "no process works on the task queue {INIT_TASK_QUEUE}, where it waits to be planned; start one with the role init"
        );
    }
    let Some(error) = request.last_error.as_ref() else {
        return "it is being planned".to_owned();
    };
    let (tries, due) = (request.failed_try, request.due);
    let times = if tries == 1 { "time" } else { "times" };
    format!("planning it failed {tries} {times} ({error}); the next try is at {due}")
}
