//! A worker: collects flows and steps, then polls one task queue on a thread of its own, because
//! the SDK's run is not `Send`.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, anyhow};
use futures::future::BoxFuture;
use temporalio_client::Client;
use temporalio_common::worker::WorkerDeploymentOptions;
use temporalio_sdk::runtime::RuntimeOptions;
use temporalio_sdk::runtime::worker_tuner::{FixedSizeSlotSupplier, TunerHolder};
use temporalio_sdk::{Runtime, Worker, WorkerOptions};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tollgate_core::flow::{Flow, Registrar, Step};

use crate::activity::{StepActivity, StepWorld};
use crate::join::JoinFlow;
use crate::workflow::FlowWorkflow;

/// How much one worker does at once.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    pub flows: usize,
    pub steps: usize,
    /// Flows kept in memory between their steps; with 0, every step replays its flow from the start.
    pub cached: usize,
    /// How long a stop waits for steps under way before it cuts them off.
    pub drain: Duration,
}

impl Size {
    /// For tests: much at once, and a short drain.
    pub fn keeping(cached: usize) -> Self {
        Self {
            flows: 100,
            steps: 100,
            cached,
            drain: Duration::from_secs(1),
        }
    }
}

/// The flows and steps of one worker.
#[derive(Clone)]
pub struct Registered(WorkerOptions);

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Registered")
            .field(&self.0.task_queue)
            .finish()
    }
}

impl Registered {
    pub fn new(task_queue: &str, size: Size) -> Self {
        let slots = FixedSizeSlotSupplier::new;
        let tuner = TunerHolder::builder()
            .workflow_task_slot_supplier(slots(size.flows))
            .activity_task_slot_supplier(slots(size.steps))
            .local_activity_task_slot_supplier(slots(size.steps))
            .nexus_task_slot_supplier(slots(1));
        let build = WorkerDeploymentOptions::from_build_id(env!("CARGO_PKG_VERSION").to_owned());
        let mut options = WorkerOptions::new(task_queue)
            .deployment_options(build)
            .max_cached_workflows(size.cached)
            .tuner(tuner.build())
            .graceful_shutdown_period(size.drain)
            .build();
        options.register_activity::<JoinFlow>(Arc::new(JoinFlow));
        Self(options)
    }

    pub fn task_queue(&self) -> &str {
        &self.0.task_queue
    }

    /// The same flows and steps on another task queue.
    #[must_use]
    pub fn on(&self, task_queue: &str) -> Self {
        let mut options = self.0.clone();
        task_queue.clone_into(&mut options.task_queue);
        Self(options)
    }
}

/// Which workers a process runs. Asked every few seconds: a task queue that is new gets a worker, and none loses its own.
pub trait WantedWorkers: Send + Sync {
    fn wanted(&self) -> BoxFuture<'_, Vec<Registered>>;
}

/// Always the same.
impl WantedWorkers for Vec<Registered> {
    fn wanted(&self) -> BoxFuture<'_, Vec<Registered>> {
        Box::pin(async { self.clone() })
    }
}

impl Registrar for Registered {
    fn flow<F: Flow>(&mut self) -> &mut Self {
        let registered = self.0.register_workflow::<FlowWorkflow<F>>();
        registered.expect("each flow is registered once");
        self
    }
    fn step<S: Step>(&mut self, world: &Arc<S::World>) -> &mut Self {
        let world = Arc::new(StepWorld::<S>(world.clone()));
        self.0.register_activity::<StepActivity<S>>(world);
        self
    }
}

/// A worker that polls until it is stopped or dropped.
pub struct RunningWorker {
    begin_stop: Box<dyn Fn() + Send + Sync>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
    /// Closed when the thread is over.
    running: watch::Receiver<()>,
    drain: Duration,
}

impl std::fmt::Debug for RunningWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunningWorker").finish_non_exhaustive()
    }
}

impl RunningWorker {
    /// Starts polling; steps run on the current tokio runtime.
    pub fn start(client: Client, registered: Registered) -> anyhow::Result<Self> {
        let runtime = Runtime::from_current_tokio(RuntimeOptions::default())?;
        let drain = registered.0.graceful_shutdown_period.unwrap_or_default();
        let mut worker = Worker::new(&runtime, client, registered.0)?;
        let begin_stop = Box::new(worker.shutdown_handle());
        let tokio = Handle::current();
        let (over, running) = watch::channel(());
        let thread = thread::Builder::new()
            .name("tollgate-worker".to_owned())
            .spawn(move || {
                let _over = over;
                let run = tokio.block_on(worker.run());
                drop(runtime);
                run.context("the Temporal worker ended early")
            })?;
        Ok(Self {
            begin_stop,
            thread: Some(thread),
            running,
            drain,
        })
    }

    /// Resolves when it no longer polls, for whatever reason.
    pub async fn ended(&self) {
        let mut running = self.running.clone();
        while running.changed().await.is_ok() {}
    }

    /// How long a stop may wait for steps under way.
    pub fn drain(&self) -> Duration {
        self.drain
    }

    /// Leaves a thread behind that does not end.
    pub(crate) fn abandon(mut self) {
        self.thread = None;
        tracing::warn!("a worker did not end in time; another process retries its steps");
    }

    /// Takes no more work. What is under way goes on.
    pub fn begin_stop(&self) {
        (self.begin_stop)();
    }

    /// Lets steps under way end, then returns. Blocks: not for a single-threaded runtime.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.end()
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        self.begin_stop();
        let ended = tokio::task::block_in_place(|| thread.join());
        ended.map_err(|_| anyhow!("the Temporal worker panicked"))?
    }
}

/// Also when a case panics: the thread must not outlive the runtime it uses.
impl Drop for RunningWorker {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
