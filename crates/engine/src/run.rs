//! One run of one flow, from loading to its durable end, and the permit it holds meanwhile.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{DueFlow, FlowEnd, FlowView, StoreResult};
use tollgate_core::retry;

use crate::contained::contained;
use crate::ctx::FlowCtx;
use crate::journal::Journal;
use crate::local::{Local, Tether};
use crate::progress::Progress;
use crate::registry::{Runner, no_flow_named};

/// Between tries to write the failure of a flow that the store refuses.
const REFUSED_END: retry::Policy = retry::Policy {
    max_attempts: u32::MAX,
    first_pause: Duration::from_secs(1),
    factor: retry::TWICE,
    longest_pause: Duration::from_mins(5),
};

pub(crate) struct Run {
    pub(crate) local: Rc<Local>,
    pub(crate) id: FlowId,
    pub(crate) journal: Journal,
    pub(crate) progress: Progress,
    permit: RefCell<Option<OwnedSemaphorePermit>>,
    /// Calls under way that are more than waiting for a child.
    busy: Cell<u32>,
    /// Why this run cannot go on; ends it whatever the flow would make of it.
    broken: RefCell<Option<String>>,
}

/// Runs a loaded flow to its end. A crash in here leaves the row marked as running and its
/// journal as it is: the next `take_node` makes it due again.
pub(crate) async fn run(local: Rc<Local>, due: DueFlow, permit: Option<OwnedSemaphorePermit>) {
    let run = Rc::new(Run {
        local,
        id: due.id,
        journal: Journal::new(due.journal),
        progress: Progress::default(),
        permit: RefCell::new(permit),
        busy: Cell::new(0),
        broken: RefCell::new(None),
    });
    run.hold_permit().await;
    let end = match run.local.shared.registry.flow(&due.name) {
        Some(runner) => drive(&run, runner, due.input_json).await,
        None => FlowEnd::Failed(no_flow_named(&due.name)),
    };
    run.progress.close().await;
    finish(&run, end).await;
}

async fn drive(run: &Rc<Run>, runner: Runner, input_json: String) -> FlowEnd {
    let ctx = FlowCtx::new(Rc::clone(run));
    let mut flow = pin!(contained(async move { runner(ctx, input_json).await }));
    poll_fn(|context| {
        let polled = flow.as_mut().poll(context);
        let broken = run.broken.take();
        if let Some(why) = broken {
            return Poll::Ready(FlowEnd::Failed(why));
        }
        match polled {
            Poll::Ready(Ok(end)) => Poll::Ready(end),
            Poll::Ready(Err(words)) => {
                Poll::Ready(FlowEnd::Failed(format!("the flow panicked: {words}")))
            }
            Poll::Pending => {
                // Nothing but children to wait for: they need the permit more.
                if run.busy.get() == 0 {
                    run.permit.take();
                }
                Poll::Pending
            }
        }
    })
    .await
}

/// Makes the end durable, and only then tells anyone. Killed before the commit, the flow is
/// replayed from its journal to the same end; killed after it, only the telling is lost, and
/// whoever asks reads the row.
async fn finish(run: &Run, mut end: FlowEnd) {
    if matches!(end, FlowEnd::Again { .. }) {
        run.local.room.borrow_mut().go_on(&run.id);
    }
    if let Err(error) = write_end(run, &end).await {
        // The store refuses this end for good; a refusal must not leave a parent waiting.
        tracing::error!(flow = %run.id, %error, "a flow's end was refused by the store");
        end = FlowEnd::Failed(format!("its end was refused by the store: {error}"));
        write_failure(run, &end).await;
    }
    leave(run, matches!(end, FlowEnd::Again { .. }));
    let watchers = &run.local.shared.watchers;
    match end {
        FlowEnd::Done(result_json) => watchers.tell(&run.id, || FlowView::Done { result_json }),
        FlowEnd::Failed(error) => watchers.tell(&run.id, || FlowView::Failed { error }),
        FlowEnd::Again { .. } => run.local.shared.due_in(Duration::ZERO),
    }
}

/// That a flow failed is written sooner or later: unended, it would look as if it ran until the next start.
async fn write_failure(run: &Run, end: &FlowEnd) {
    let mut tries = 0;
    while let Err(error) = write_end(run, end).await {
        tries += 1;
        tracing::error!(flow = %run.id, %error, tries, "a flow's failure could not be written; it is tried again");
        tokio::time::sleep(REFUSED_END.pause_after(tries)).await;
    }
}

async fn write_end(run: &Run, end: &FlowEnd) -> StoreResult<()> {
    let (id, end) = (run.id.clone(), end.clone());
    let write = |shared: Arc<Tether>| async move {
        shared
            .persist(|| shared.flows.end_flow(shared.epoch, &id, end.clone()))
            .await
    };
    run.local.outside(write).await
}

fn leave(run: &Run, again: bool) {
    run.local.room.borrow_mut().unload(&run.id, again);
    run.permit.take();
    run.local.left.notify_waiters();
}

impl Run {
    /// Marks the flow as doing more than waiting for children, until dropped.
    pub(crate) fn busy(&self) -> Busy<'_> {
        self.busy.set(self.busy.get() + 1);
        Busy(self)
    }

    /// Takes a permit unless the flow has one.
    pub(crate) async fn hold_permit(&self) {
        if self.permit.borrow().is_some() {
            return;
        }
        let permit = Arc::clone(&self.local.permits).acquire_owned().await;
        // Two branches may have waited at once: the second permit goes back right here.
        let spare = self
            .permit
            .replace(Some(permit.expect("the semaphore is never closed")));
        drop(spare);
    }

    /// Ends the run as failed. For what no flow can handle: a journal that cannot be read or
    /// written, a step that nobody registered.
    pub(crate) async fn break_off<T>(&self, why: String) -> T {
        self.broken.replace(Some(why));
        pending().await
    }
}

pub(crate) struct Busy<'a>(&'a Run);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}
