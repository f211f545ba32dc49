//! An engine on a store in memory, and the short words that the cases use.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tollgate_core::flow::Flow;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{Engine, FlowView, Flows, Memo, Start, Started};
use tollgate_engine::{Builder, EmbeddedEngine, Handle, Options};

use crate::flows::{self, World};
use crate::memory::Memory;

/// Longer than any case takes: only a hanging engine comes to it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Bench {
    pub(crate) memory: Arc<Memory>,
    pub(crate) world: Arc<World>,
    pub(crate) engine: EmbeddedEngine,
    pub(crate) handle: Handle,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
        let (memory, world) = (Arc::new(Memory::new()), Arc::new(World::new()));
        let engine = engine_on(&memory, &world, options).await;
        Self {
            handle: engine.handle(),
            memory,
            world,
            engine,
        }
    }

    pub(crate) async fn start<F: Flow>(&self, id: &str, input: &F::In) -> Started {
        self.start_in::<F>(id, input, Duration::ZERO).await
    }

    pub(crate) async fn start_in<F: Flow>(
        &self,
        id: &str,
        input: &F::In,
        delay: Duration,
    ) -> Started {
        let flows = vec![start_of(id, F::NAME, input, delay)];
        let mut started = self.handle.start(flows).await.expect("reachable");
        started.pop().expect("one answer per flow")
    }

    pub(crate) async fn end_of(&self, id: &str) -> FlowView {
        self.handle
            .view(&FlowId::new(id), PATIENCE)
            .await
            .expect("reachable")
    }

    pub(crate) async fn state_of(&self, id: &str) -> FlowView {
        self.handle
            .view(&FlowId::new(id), Duration::ZERO)
            .await
            .expect("reachable")
    }
}

pub(crate) async fn engine_on(
    memory: &Arc<Memory>,
    world: &Arc<World>,
    options: Options,
) -> EmbeddedEngine {
    let mut builder = Builder::new();
    flows::register(&mut builder, world);
    let flows = Arc::clone(memory) as Arc<dyn Flows>;
    EmbeddedEngine::start(flows, builder, options)
        .await
        .expect("it starts")
}

pub(crate) fn start_of(id: &str, name: &str, input: &impl Serialize, delay: Duration) -> Start {
    Start {
        id: FlowId::new(id),
        name: name.to_owned(),
        task_queue: String::new(),
        input_json: serde_json::to_string(input).expect("inputs are JSON"),
        delay,
        memo: Memo::new(),
    }
}

pub(crate) fn done(result: &impl Serialize) -> FlowView {
    FlowView::Done {
        result_json: serde_json::to_string(result).expect("results are JSON"),
    }
}

pub(crate) fn failed(error: &str) -> FlowView {
    FlowView::Failed {
        error: error.to_owned(),
    }
}

pub(crate) fn running() -> FlowView {
    FlowView::Running {
        progress_json: None,
    }
}
