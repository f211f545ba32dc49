//! The flows and the one scripted step that the cases are made of.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tollgate_core::flow::{Call, Ctx, End, Flow, FlowError, Policy, Registrar, Step, StepError};
use tollgate_core::id::FlowId;
use tollgate_core::{join, retry};

/// What the steps of a case see and leave behind.
pub(crate) struct World {
    /// Each try as `key#attempt`.
    pub(crate) tries: Mutex<Vec<String>>,
    /// One permit for each try that has begun to wait at the gate.
    pub(crate) waiting: Semaphore,
    /// One permit lets one waiting try pass.
    pub(crate) gate: Semaphore,
    pub(crate) inside: AtomicUsize,
    pub(crate) most_inside: AtomicUsize,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            tries: Mutex::default(),
            waiting: Semaphore::new(0),
            gate: Semaphore::new(0),
            inside: AtomicUsize::new(0),
            most_inside: AtomicUsize::new(0),
        }
    }

    pub(crate) fn tries(&self) -> Vec<String> {
        self.tries
            .lock()
            .expect("no step panics with the lock")
            .clone()
    }

    /// How often each try was made.
    pub(crate) fn counts(&self) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        for made in self.tries() {
            *counts.entry(made).or_insert(0) += 1;
        }
        counts
    }

    /// Waits until `tries` more have come to the gate.
    pub(crate) async fn at_the_gate(&self, tries: u32) {
        let arrived = self.waiting.acquire_many(tries).await;
        arrived.expect("never closed").forget();
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Script {
    Succeed,
    FailUntil(u32),
    FailForGood,
    Panic,
    HangForever,
    WaitAtGate,
    FailThenWaitAtGate,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) key: String,
    pub(crate) script: Script,
}

pub(crate) fn work(key: &str, script: Script) -> Work {
    Work {
        key: key.to_owned(),
        script,
    }
}

impl Step for Work {
    const NAME: &'static str = "work";
    type Out = String;
    type World = World;

    fn key(&self) -> String {
        self.key.clone()
    }

    fn policy(&self) -> Policy {
        let pause = Duration::from_millis(1);
        let retry = retry::Policy {
            max_attempts: 3,
            first_pause: pause,
            factor: retry::TWICE,
            longest_pause: pause,
        };
        let timeout = match self.script {
            Script::HangForever => Duration::from_millis(5),
            _ => Duration::from_mins(1),
        };
        Policy { timeout, retry }
    }

    async fn run(&self, world: &World, call: &Call) -> Result<String, StepError> {
        let made = format!("{}#{}", self.key, call.attempt);
        world.tries.lock().expect("not poisoned").push(made.clone());
        let inside = world.inside.fetch_add(1, Ordering::SeqCst) + 1;
        world.most_inside.fetch_max(inside, Ordering::SeqCst);
        let result = match self.script {
            Script::Succeed => Ok(made),
            Script::FailUntil(attempt) if call.attempt >= attempt => Ok(made),
            Script::FailUntil(_) => Err(StepError::retryable("not yet")),
            Script::FailForGood => Err(StepError::last("never")),
            Script::Panic => panic!("as scripted"),
            Script::HangForever => std::future::pending().await,
            Script::FailThenWaitAtGate if call.attempt == 1 => Err(StepError::retryable("not yet")),
            Script::WaitAtGate | Script::FailThenWaitAtGate => {
                world.waiting.add_permits(1);
                world.gate.acquire().await.expect("never closed").forget();
                Ok(made)
            }
        };
        tokio::task::yield_now().await;
        world.inside.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

/// Its works, one after another.
pub(crate) struct Sequence;
impl Flow for Sequence {
    const NAME: &'static str = "sequence";
    type In = Vec<Work>;
    type Out = Vec<String>;

    async fn run<C: Ctx>(ctx: C, input: Vec<Work>) -> Result<End<Self>, FlowError> {
        let mut results = Vec::new();
        for (done, work) in input.into_iter().enumerate() {
            ctx.progress(&done);
            results.push(ctx.step(work).await?);
        }
        Ok(End::Done(results))
    }
}

/// Its works, some at once.
pub(crate) struct Parallel;
impl Flow for Parallel {
    const NAME: &'static str = "parallel";
    type In = (usize, Vec<Work>);
    type Out = Vec<String>;

    async fn run<C: Ctx>(ctx: C, (width, works): Self::In) -> Result<End<Self>, FlowError> {
        let steps = works.into_iter().map(|work| ctx.step(work));
        let results = join::windowed(width, steps).await;
        let results: Result<Vec<_>, _> = results.into_iter().collect();
        Ok(End::Done(results?))
    }
}

/// One `Sequence` per child, some at once; then a step of its own.
pub(crate) struct Parent;
impl Flow for Parent {
    const NAME: &'static str = "parent";
    type In = (usize, Vec<(FlowId, Vec<Work>)>);
    type Out = usize;

    async fn run<C: Ctx>(ctx: C, (width, children): Self::In) -> Result<End<Self>, FlowError> {
        let mut total = 0;
        let children = children.into_iter().map(async |(id, works)| {
            let own = work(&format!("{}-after-{id}", ctx.flow_id()), Script::Succeed);
            let results = ctx.child::<Sequence>(id, works).await?;
            ctx.step(own).await?;
            Ok::<_, FlowError>(results.len())
        });
        for results in join::windowed(width, children).await {
            total += results?;
        }
        Ok(End::Done(total))
    }
}

/// The same key in every run, down to zero.
pub(crate) struct Countdown;
impl Flow for Countdown {
    const NAME: &'static str = "countdown";
    type In = u32;
    type Out = String;

    async fn run<C: Ctx>(ctx: C, left: u32) -> Result<End<Self>, FlowError> {
        let result = ctx.step(work("tick", Script::Succeed)).await?;
        Ok(if left == 0 {
            End::Done(result)
        } else {
            End::Again(left - 1)
        })
    }
}

pub(crate) struct Panics;
impl Flow for Panics {
    const NAME: &'static str = "panics";
    type In = ();
    type Out = ();

    async fn run<C: Ctx>(ctx: C, (): ()) -> Result<End<Self>, FlowError> {
        ctx.step(work("before", Script::Succeed)).await?;
        panic!("the flow's own bug");
    }
}

pub(crate) fn register(registrar: &mut impl Registrar, world: &std::sync::Arc<World>) {
    registrar
        .flow::<Sequence>()
        .flow::<Parallel>()
        .flow::<Parent>()
        .flow::<Countdown>()
        .flow::<Panics>()
        .step::<Work>(world);
}
