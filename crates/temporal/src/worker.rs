//! A worker: collects flows and steps, then polls one task queue on a thread of its own, because
//! the SDK's run is not `Send`.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::{Context, anyhow};
use temporalio_client::Client;
use temporalio_sdk::runtime::RuntimeOptions;
use temporalio_sdk::{Runtime, Worker, WorkerOptions};
use tokio::runtime::Handle;
use tollgate_core::flow::{Flow, Registrar, Step};

use crate::activity::{StepActivity, StepWorld};
use crate::join::JoinFlow;
use crate::workflow::FlowWorkflow;

/// The flows and steps of one worker.
pub struct Registered(WorkerOptions);

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Registered")
            .field(&self.0.task_queue)
            .finish()
    }
}

impl Registered {
    /// `cached` is how many flows are kept in memory between their steps; with 0, every step
    /// replays its flow from the start.
    pub fn new(task_queue: &str, cached: usize) -> Self {
        let options = WorkerOptions::new(task_queue).max_cached_workflows(cached);
        let mut options = options.build();
        options.register_activity::<JoinFlow>(Arc::new(JoinFlow));
        Self(options)
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
    begin_stop: Box<dyn Fn() + Send>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
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
        let mut worker = Worker::new(&runtime, client, registered.0)?;
        let begin_stop = Box::new(worker.shutdown_handle());
        let tokio = Handle::current();
        let thread = thread::spawn(move || {
            let run = tokio.block_on(worker.run());
            drop(runtime);
            run.context("the Temporal worker ended early")
        });
        Ok(Self {
            begin_stop,
            thread: Some(thread),
        })
    }

    /// Lets steps under way end, then returns. Blocks: not for a single-threaded runtime.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.end()
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        (self.begin_stop)();
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
