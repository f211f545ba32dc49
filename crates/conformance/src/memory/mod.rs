//! The in-memory context: drives a flow with a no-op waker, without a runtime or a clock, and
//! injects faults. A flow that awaits anything but its port, a step key used twice and a replay
//! that differs are errors here, before they are a silent hang on Temporal.

mod context;
mod fault;
mod flows;
mod steps;
mod sweep;
mod work;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde_json::Value;
use tollgate_core::flow::{Flow, FlowError, Registrar, Step};
use tollgate_core::id::FlowId;

pub use context::MemoryCtx;
pub use fault::{Fault, Plan};
pub use flows::StepCall;
pub use sweep::{Case, Scene, sweep};
pub use work::Work;

use flows::Stop;

/// A fault that keeps crashing the flow would loop; no plan crashes it more than once.
const MAX_LIVES: u32 = 3;
/// More than any flow in a test needs; one that awaits its own end never has enough.
const MAX_POLLS: u32 = 100_000;

/// The registered flows and steps, and how the work of steps is run.
#[derive(Debug)]
pub struct Memory {
    registered: Registered,
    work: Work,
}

#[derive(Debug, Clone, Default)]
struct Registered {
    flows: BTreeSet<&'static str>,
    /// By the names of the steps that act on them.
    worlds: BTreeMap<&'static str, Arc<dyn Any + Send + Sync>>,
}

/// A flow that came to its end.
#[derive(Debug)]
pub struct Ran<T> {
    pub result: Result<T, FlowError>,
    /// Every step that was not answered from the journal, in order; the positions of a [`Plan`].
    pub calls: Vec<StepCall>,
    /// The last progress of each flow that showed any.
    pub progress: BTreeMap<FlowId, Value>,
    /// How often the flow was begun anew from its journal.
    pub crashes: u32,
    /// The plan, if the flow never came to its step.
    pub missed: Option<Plan>,
}

/// A rule of the port that was broken; a bug in the flow or the step, never a fault of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken(pub String);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Broken {}

impl Memory {
    pub fn new(work: Work) -> Self {
        Self {
            registered: Registered::default(),
            work,
        }
    }

    /// Runs a flow and its children to the end, each from an empty journal. A crash in the plan
    /// begins them anew from what the journals hold.
    pub fn run<F: Flow>(
        &self,
        id: &FlowId,
        input: &F::In,
        plan: Option<Plan>,
    ) -> Result<Ran<F::Out>, Broken> {
        let root = MemoryCtx::root(self, id, plan);
        let mut crashes = 0;
        loop {
            let flow = root.clone().follow::<F>(flows::copy(input));
            match poll_to_end(&root, flow) {
                Ok(result) => return Ok(root.into_ran(result, crashes)),
                Err(Stop::Broken(why)) => return Err(Broken(why)),
                Err(Stop::Crash) => crashes += 1,
            }
            assert!(
                crashes < MAX_LIVES,
                "the plan crashes the flow again and again"
            );
            root.forget_this_life();
        }
    }
}

impl Registrar for Memory {
    fn flow<F: Flow>(&mut self) -> &mut Self {
        assert!(
            self.registered.flows.insert(F::NAME),
            "flow {} twice",
            F::NAME
        );
        self
    }
    fn step<S: Step>(&mut self, world: &Arc<S::World>) -> &mut Self {
        let before = self.registered.worlds.insert(S::NAME, world.clone());
        assert!(before.is_none(), "step {} twice", S::NAME);
        self
    }
}

/// Polls until the flow ends or stops; one that waits although the port gave all it was asked
/// for awaits something else.
fn poll_to_end<T>(root: &MemoryCtx, mut flow: Pin<Box<dyn Future<Output = T>>>) -> Result<T, Stop> {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..MAX_POLLS {
        let polled = flow.as_mut().poll(&mut context);
        if let Some(stop) = root.take_stop() {
            return Err(stop);
        }
        match polled {
            Poll::Ready(result) => return Ok(result),
            Poll::Pending if root.take_moved() => {}
            Poll::Pending => {
                let id = &root.id;
                return Err(Stop::Broken(format!(
                    "flow {id} awaited something that is not the port's"
                )));
            }
        }
    }
    let id = &root.id;
    Err(Stop::Broken(format!("flow {id} does not come to an end")))
}
