//! Why an item is not running and when it will: what the store tells, and what only the engine knows.

use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::id::ItemType;
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::{ItemView, RequestView};
use tollgate_core::timetable::{Untold, UntoldCode};
use tollgate_dispatch::{
    DISPATCH_TASK_QUEUE, ENGINE_IS_AWAY, ItemForecast, NOBODY_DISPATCHES, SwitchedOff, foresee,
    is_overdue, item_type, meets_deadline, nobody_runs_it, switched_off, waits_for_dispatch,
    why_not_running,
};
use tollgate_domains::payments::INIT_TASK_QUEUE;

use crate::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;

/// What is foreseen for an item, and what it waits for.
pub(crate) struct Waits {
    pub(crate) foreseen: contract::Foreseen,
    pub(crate) why: Option<String>,
}

/// The same number of reads for every item.
pub(crate) async fn waits(app: &App, view: &ItemView) -> Result<Waits, ApiError> {
    let now = app.store.now().await?;
    let lane = app.store.lane(&view.lane).await?;
    let dispatch = Dispatch::of(app, &view.item.item_type).await?;
    let off = dispatch.off.as_ref();
    let hindered = hindered(app, view, lane.as_ref(), &dispatch, now).await;
    let forecast = match &lane {
        Some(lane) => app.forecaster.lane_as_in(lane).await?,
        None => None,
    };
    let mut foreseen = foresee(view, forecast.as_deref(), off, now);
    if let (Some(untold), Some(_)) = (&hindered, &foreseen) {
        foreseen = Some(ItemForecast::untold(untold.clone(), now));
    }
    let turn = foreseen.as_ref().and_then(|it| it.sent.clone().ok());
    let why = match hindered {
        Some(untold) => Some(untold.reason),
        None => why_not_running(view, lane.as_ref(), off, turn, now),
    };
    let meets = meets_deadline(view, foreseen.as_ref());
    Ok(Waits {
        foreseen: contract::Foreseen::of((foreseen, meets)),
        why,
    })
}

/// Whether items of a type are dispatched, and onto which task queue.
struct Dispatch {
    off: Option<SwitchedOff>,
    task_queue: String,
}

impl Dispatch {
    async fn of(app: &App, name: &ItemType) -> Result<Self, ApiError> {
        let found = item_type(&*app.store, name).await?;
        let off = match &found {
            Some(found) if found.config.enabled => None,
            _ => switched_off(&*app.store, name).await?,
        };
        let task_queue = found.map(|found| found.config.exec_task_queue);
        Ok(Self {
            off,
            task_queue: task_queue.unwrap_or_default(),
        })
    }
}

/// Nobody would start it, or run it.
async fn hindered(
    app: &App,
    view: &ItemView,
    lane: Option<&LaneInForce>,
    dispatch: &Dispatch,
    now: Timestamp,
) -> Option<Untold> {
    let untold = |code, reason| Untold {
        code,
        reason,
        since: view.due,
    };
    if waits_for_dispatch(view, lane, dispatch.off.as_ref(), now) {
        let nobody = UntoldCode::NobodyDispatches;
        if app.engine.trouble().is_some() {
            return Some(untold(nobody, ENGINE_IS_AWAY.to_owned()));
        }
        if app.engine.nobody_works_on(DISPATCH_TASK_QUEUE).await {
            return Some(untold(nobody, NOBODY_DISPATCHES.to_owned()));
        }
    }
    let task_queue = &dispatch.task_queue;
    if is_overdue(view, now) && app.engine.nobody_works_on(task_queue).await {
        let why = nobody_runs_it(task_queue);
        return Some(untold(UntoldCode::NobodyExecutes, why));
    }
    None
}

/// Why a payment that was accepted is not planned yet.
pub(crate) async fn why_unplanned(app: &App, request: &RequestView) -> String {
    if app.engine.trouble().is_some() {
        return ENGINE_IS_AWAY.to_owned();
    }
    if app.engine.nobody_works_on(INIT_TASK_QUEUE).await {
        return format!(
            "no process polls the task queue {INIT_TASK_QUEUE}; start one with the role init"
        );
    }
    let Some(error) = request.last_error.as_ref() else {
        return "a slot is being assigned".to_owned();
    };
    let (tries, due) = (request.failed_try, request.due);
    let times = if tries == 1 { "time" } else { "times" };
    format!("assigning a slot failed {tries} {times} ({error}); next attempt at {due}")
}
