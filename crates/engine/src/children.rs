//! A child flow, from its row to its result in the parent's journal. The child itself is run like
//! any other flow.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::flow::{Flow, FlowError};
use tollgate_core::id::FlowId;
use tollgate_core::ports::{FlowView, JournalEntry, NewFlow, StoreError, StoreResult};

use crate::local::{Local, Tether};
use crate::registry::CHILD;
use crate::run::Run;
use crate::watchers::Watch;

/// The journal's key of a child's result.
pub(crate) fn key(id: &FlowId) -> String {
    format!("{CHILD}/{id}")
}

/// Starts the child or joins it, waits for its end and records it; answers with the recorded JSON.
///
/// Killed after the child's row was written, the replay finds it (`Already`) and joins; killed
/// after the child's end, the replay reads the end from the child's row.
pub(crate) async fn run_to_its_end<F: Flow>(
    run: &Run,
    id: &FlowId,
    input: &F::In,
) -> StoreResult<String> {
    if *id == run.id {
        return run
            .break_off("a flow cannot be its own child".to_owned())
            .await;
    }
    let input_json = match serde_json::to_string(input) {
        Ok(input_json) => input_json,
        Err(error) => {
            return run
                .break_off(format!("the input of {id} is not JSON: {error}"))
                .await;
        }
    };
    let child = NewFlow {
        id: id.clone(),
        name: F::NAME.to_owned(),
        input_json,
        delay: Duration::ZERO,
        is_child: true,
    };
    // Watching begins before the row is there: the end cannot be missed.
    let mut watch = run.local.shared.watchers.watch(id);
    let view = {
        let _busy = run.busy();
        start(&run.local, child).await?
    };
    let result_json = match end_json(view) {
        Some(result_json) => result_json,
        None => wait(run, id, &mut watch).await?,
    };
    let _busy = run.busy();
    record(
        run,
        JournalEntry {
            key: key(id),
            result_json,
        },
    )
    .await
}

/// Writes the child's row, or finds it; answers with its state.
async fn start(local: &Local, child: NewFlow) -> StoreResult<FlowView> {
    local
        .outside(|shared| async move {
            let new = shared
                .persist(|| shared.flows.start_flows(vec![child.clone()]))
                .await?;
            if new == [true] {
                return Ok(FlowView::Running {
                    progress_json: None,
                });
            }
            shared.persist(|| shared.flows.flow(&child.id)).await
        })
        .await
}

/// Waits without a permit (see `run::drive`), and goes on with one.
async fn wait(run: &Run, id: &FlowId, watch: &mut Watch) -> StoreResult<String> {
    let view = {
        let _wait = Wait::begin(&run.local, id);
        run.local.shared.due_in(Duration::ZERO);
        watch.ended().await
    };
    let Some(view) = view else {
        // Nobody tells any more: the engine has stopped, and this flow with it.
        return std::future::pending().await;
    };
    run.hold_permit().await;
    end_json(view).ok_or_else(|| StoreError::Bug(format!("flow {id} was reported as ended")))
}

async fn record(run: &Run, entry: JournalEntry) -> StoreResult<String> {
    let id = run.id.clone();
    let write = |shared: Arc<Tether>| async move {
        shared
            .persist(|| shared.flows.journal(shared.epoch, &id, entry.clone()))
            .await?;
        Ok(entry.result_json)
    };
    run.local.outside(write).await
}

/// The end of a child as the JSON of a `Result`; `None` while it runs.
fn end_json(view: FlowView) -> Option<String> {
    let failed = |why: String| {
        let error = Err::<(), _>(FlowError(why));
        serde_json::to_string(&error).expect("a text is JSON")
    };
    match view {
        FlowView::Running { .. } => None,
        FlowView::Done { result_json } => Some(format!("{{\"Ok\":{result_json}}}")),
        FlowView::Failed { error } => Some(failed(error)),
        FlowView::NotFound => Some(failed("its row is gone".to_owned())),
    }
}

/// A parent's wait for a child, known to the room until dropped.
struct Wait<'a> {
    local: &'a Local,
    child: &'a FlowId,
}

impl<'a> Wait<'a> {
    fn begin(local: &'a Local, child: &'a FlowId) -> Self {
        local.room.borrow_mut().begin_wait(child);
        Self { local, child }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.local.room.borrow_mut().end_wait(self.child);
    }
}
