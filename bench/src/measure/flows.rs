//! W5: three-step flows on the embedded engine. Each caller starts a flow, waits for its end and
//! starts the next; the steps return at once, so that what is left is the engine's and the disk's.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tollgate_core::flow::{Call, Ctx, End, Flow, FlowError, Policy, Registrar, Step, StepError};
use tollgate_core::id::FlowId;
use tollgate_core::ports::{Engine, FlowView, Memo, Start};
use tollgate_core::retry;
use tollgate_engine::{Builder, EmbeddedEngine, Handle, Options};

use super::target;
use crate::sample::Sample;
use crate::stopwatch::Lap;

pub(super) const STEPS: u32 = 3;
/// Longer than any flow here takes, and an end for a caller that waits in vain.
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) async fn measure(dir: &Path, count: u32, at_once: u32) -> Result<Sample> {
    let store = target::open_store(dir).await?;
    let mut builder = Builder::new();
    builder.flow::<ThreeSteps>().step::<AtOnce>(&Arc::new(()));
    let engine = EmbeddedEngine::start(store, builder, Options::default()).await?;
    let commits_before = target::commits(dir)?;

    let lap = Lap::begin()?;
    let next = Arc::new(AtomicU32::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..at_once {
        callers.spawn(call(engine.handle(), Arc::clone(&next), count));
    }
    while let Some(called) = callers.join_next().await {
        called??;
    }
    let sample = lap.sample(count)?;

    let commits = target::commits(dir)? - commits_before;
    engine.shutdown().await;
    let done = "SELECT count(*) FROM flow WHERE state = 'DONE'";
    target::check_rows(dir, done, count)?;
    Ok(Sample {
        commits: Some(commits),
        ..sample
    })
}

async fn call(engine: Handle, next: Arc<AtomicU32>, count: u32) -> Result<()> {
    loop {
        let number = next.fetch_add(1, Ordering::SeqCst);
        if number >= count {
            return Ok(());
        }
        let id = FlowId::new(format!("flow-{number:010}"));
        let start = Start {
            id: id.clone(),
            name: ThreeSteps::NAME.to_owned(),
            task_queue: "bench".to_owned(),
            input_json: "0".to_owned(),
            delay: Duration::ZERO,
            memo: Memo::new(),
        };
        engine.start(vec![start]).await?;
        let view = engine.view(&id, PATIENCE).await?;
        ensure!(matches!(view, FlowView::Done { .. }), "{id} is {view:?}");
    }
}

struct ThreeSteps;

impl Flow for ThreeSteps {
    const NAME: &'static str = "three-steps";
    type In = u32;
    type Out = u32;

    async fn run<C: Ctx>(ctx: C, input: u32) -> Result<End<Self>, FlowError> {
        let mut sum = input;
        for number in 0..STEPS {
            sum += ctx.step(AtOnce { number }).await?;
        }
        Ok(End::Done(sum))
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct AtOnce {
    number: u32,
}

impl Step for AtOnce {
    const NAME: &'static str = "at-once";
    type Out = u32;
    type World = ();

    fn key(&self) -> String {
        self.number.to_string()
    }

    fn policy(&self) -> Policy {
        Policy {
            timeout: PATIENCE,
            retry: retry::Policy::ONCE,
        }
    }

    async fn run(&self, _world: &(), _call: &Call) -> Result<u32, StepError> {
        Ok(self.number)
    }
}
