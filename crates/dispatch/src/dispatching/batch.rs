//! Several items in one flow: one step that executes each of them as its own flow would, all at once.
//!
//! The flow of one item is run inside the step, with its steps called directly and not journaled: the store knows,
//! item by item, what was sent, answered and ended, and a step that runs again goes on from there. A crash
//! anywhere in here leaves items that are dispatched and have not ended; the step's next try, or else the
//! sweeper, executes those and no others.

use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tollgate_core::flow::{
    BatchEnd, BatchInput, BatchItem, Call, Ctx, End, ExecInput, Flow, FlowError, Policy, Registrar,
    Step, StepError,
};
use tollgate_core::id::{FlowId, Item, ItemId};
use tollgate_core::ports::{LONGEST_SEND, Store, ToExecute};
use tollgate_core::retry;
use tracing::Instrument;

/// A flow holds items whose times lie within this.
pub(crate) const TIMES_WITHIN: Duration = Duration::from_secs(5);
/// One try of a batch: the last item's time, its patience at the gate and the bank's timeout
/// ([`LONGEST_SEND`] is above both), and what follows once the store is back from two minutes away.
const LONGEST_BATCH: Duration = Duration::from_mins(10);
const _: () = assert!(
    LONGEST_BATCH.as_secs() > TIMES_WITHIN.as_secs() + 2 * LONGEST_SEND.as_secs(),
    "a batch must outlive its slowest item"
);

/// What is not tried again here the sweeper finds.
const BATCH_STEP: Policy = Policy {
    timeout: LONGEST_BATCH,
    retry: retry::Policy {
        max_attempts: 60,
        first_pause: Duration::from_millis(200),
        factor: retry::TWICE,
        longest_pause: Duration::from_secs(2),
    },
};

/// A domain whose items can be executed several to a flow.
pub trait Executes: Sized + Send + Sync + 'static {
    /// The flow of several items.
    const BATCH_FLOW: &'static str;
    /// Its one step.
    const BATCH_STEP: &'static str;

    fn store(&self) -> &dyn Store;

    /// Ends when nothing that was sent is under way.
    fn settled(&self) -> impl Future<Output = ()> + Send;

    /// Waits until this node may send nothing more; why.
    fn fenced(&self) -> impl Future<Output = String> + Send;

    /// Runs the flow of one item.
    fn execute(
        ctx: Inline<Self>,
        input: ExecInput,
    ) -> impl Future<Output = Result<(), FlowError>> + Send;
}

/// What a domain registers besides the flow of one item.
pub fn register_batch<D: Executes>(registrar: &mut impl Registrar, world: &Arc<D>) {
    let world = Arc::new(Batched(Arc::clone(world)));
    registrar
        .flow::<ExecBatchFlow<D>>()
        .step::<ExecuteBatch<D>>(&world);
}

#[derive(Debug)]
pub struct ExecBatchFlow<D>(PhantomData<fn() -> D>);

impl<D: Executes> Flow for ExecBatchFlow<D> {
    const NAME: &'static str = D::BATCH_FLOW;
    type In = BatchInput;
    type Out = BatchEnd;

    async fn run<C: Ctx>(ctx: C, input: BatchInput) -> Result<End<Self>, FlowError> {
        let step = ExecuteBatch::<D> {
            input,
            domain: PhantomData,
        };
        Ok(End::Done(ctx.step(step).await?))
    }
}

/// Executes each item at its time: those that must wait go back to the queue and leave at once, and a slow
/// one holds up no other.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct ExecuteBatch<D> {
    #[serde(flatten)]
    pub input: BatchInput,
    #[serde(skip)]
    domain: PhantomData<fn() -> D>,
}

/// What the step acts on: the world of the domain's own steps.
#[derive(Debug)]
pub struct Batched<D>(pub Arc<D>);

impl<D: Executes> Step for ExecuteBatch<D> {
    const NAME: &'static str = D::BATCH_STEP;
    type Out = BatchEnd;
    type World = Batched<D>;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        BATCH_STEP
    }
    async fn run(&self, world: &Batched<D>, call: &Call) -> Result<BatchEnd, StepError> {
        let runs = self.input.items.iter();
        let runs: Vec<_> = runs.map(|item| (item.id.clone(), item.run)).collect();
        let asked = runs.len();
        let store = world.0.store();
        let todo = store.to_execute(&self.input.item_type, runs).await?;
        let mut end = BatchEnd {
            moved_on: count(asked - todo.len()),
            ..BatchEnd::default()
        };
        // Dropped with this future: a step that is cut off takes no further turn.
        let mut items = JoinSet::new();
        for item in todo {
            items.spawn(self.execute(&world.0, call, item));
        }
        let mut fenced = pin!(world.0.fenced());
        loop {
            let ended = tokio::select! {
                ended = items.join_next() => ended,
                why = &mut fenced => {
                    // What was sent is answered here; the rest is for the node that takes over.
                    world.0.settled().await;
                    return Err(StepError::retryable(why));
                }
            };
            let Some(ended) = ended else {
                return Ok(end);
            };
            match ended {
                Ok((_, Ok(()))) => end.executed += 1,
                Ok((id, Err(FlowError(why)))) => {
                    tracing::warn!(item = %id, %why, "an item of a batch could not be executed");
                    end.failed.insert(id, why);
                }
                Err(panicked) => return Err(StepError::retryable(panicked.to_string())),
            }
        }
    }
    async fn after_cut_off(world: &Batched<D>) {
        world.0.settled().await;
    }
}

impl<D: Executes> ExecuteBatch<D> {
    fn execute(
        &self,
        world: &Arc<D>,
        call: &Call,
        item: ToExecute,
    ) -> impl Future<Output = (ItemId, Result<(), FlowError>)> + Send + 'static {
        let is_it = |known: &&BatchItem| known.id == item.id;
        let jitter_ms = self.input.items.iter().find(is_it).map(|it| it.jitter_ms);
        let wait = item.delay + Duration::from_millis(jitter_ms.unwrap_or_default());
        let of = Item::new(&self.input.item_type, &item.id);
        let ctx = Inline {
            world: Arc::clone(world),
            flow: call.flow_id.clone(),
            item: of.clone(),
        };
        let input = ExecInput {
            item: of,
            run: item.run,
            context_json: item.context_json,
        };
        async move {
            tokio::time::sleep(wait).await;
            (item.id, D::execute(ctx, input).await)
        }
    }
}

fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

/// What the flow of one item sees inside a batch: its steps are called, tried again by their own policies, and
/// not journaled.
#[derive(Debug)]
pub struct Inline<D> {
    world: Arc<D>,
    flow: FlowId,
    item: Item,
}

impl<D> Clone for Inline<D> {
    fn clone(&self) -> Self {
        Self {
            world: Arc::clone(&self.world),
            flow: self.flow.clone(),
            item: self.item.clone(),
        }
    }
}

impl<D: Send + Sync + 'static> Ctx for Inline<D> {
    fn flow_id(&self) -> &FlowId {
        &self.flow
    }

    async fn step<S: Step>(&self, step: S) -> Result<S::Out, StepError> {
        let world: &dyn Any = &*self.world;
        let Some(world) = world.downcast_ref::<S::World>() else {
            let why = format!("step {:?} belongs to another domain", S::NAME);
            return Err(StepError::last(why));
        };
        let mut call = Call {
            flow_id: self.flow.clone(),
            attempt: 1,
        };
        let policy = step.policy();
        // A trace is about one item, whatever flow executes it.
        let span = tracing::info_span!(parent: None, "step", item = %self.item, step = S::NAME);
        loop {
            let run = step.run(world, &call).instrument(span.clone());
            let error = match tokio::time::timeout(policy.timeout, run).await {
                Ok(Ok(out)) => return Ok(out),
                Ok(Err(error)) => error,
                Err(_) => StepError::retryable(format!("timed out after {:?}", policy.timeout)),
            };
            let pause = policy.retry.next_pause(call.attempt);
            let Some(pause) = pause.filter(|_| error.retry) else {
                return Err(error);
            };
            tokio::time::sleep(pause).await;
            call.attempt += 1;
        }
    }

    async fn child<F: Flow>(&self, id: FlowId, _: F::In) -> Result<F::Out, FlowError> {
        Err(FlowError(format!(
            "{id}: an item of a batch has no child flows"
        )))
    }

    fn progress(&self, _: &impl Serialize) {}
}
