//! What the engine can run: flows by name, the worlds of steps by the step's type. Filled once,
//! before the start; mistakes are collected and refuse the start.

use std::any::{Any, TypeId};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use tollgate_core::flow::{End, Flow, FlowError, Registrar, Step};
use tollgate_core::ports::FlowEnd;

use crate::ctx::FlowCtx;

/// Runs one flow from its input, both as JSON text.
pub(crate) type Runner = fn(FlowCtx, String) -> Pin<Box<dyn Future<Output = FlowEnd>>>;

/// The journal's first part of a key for children; no step may have this name.
pub(crate) const CHILD: &str = "child";

#[derive(Default)]
pub struct Builder {
    flows: HashMap<&'static str, Runner>,
    /// Each an `Arc<S::World>`.
    worlds: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
    step_names: HashSet<&'static str>,
    mistakes: Vec<String>,
}

impl Builder {
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn build(self) -> Result<Registry, String> {
        if self.mistakes.is_empty() {
            Ok(Registry {
                flows: self.flows,
                worlds: self.worlds,
            })
        } else {
            Err(self.mistakes.join("; "))
        }
    }
}

impl Registrar for Builder {
    fn flow<F: Flow>(&mut self) -> &mut Self {
        if self.flows.insert(F::NAME, run_flow::<F>).is_some() {
            self.mistakes
                .push(format!("two flows are named {:?}", F::NAME));
        }
        self
    }

    fn step<S: Step>(&mut self, world: &Arc<S::World>) -> &mut Self {
        // A journal key is `{NAME}/{key}`: without a slash in names, no two steps can ever share
        // one.
        if S::NAME.contains('/') || S::NAME == CHILD {
            self.mistakes.push(format!(
                "a step may not be named {:?}: the journal needs \"/\" and {CHILD:?} for itself",
                S::NAME
            ));
        }
        if !self.step_names.insert(S::NAME) {
            self.mistakes
                .push(format!("two steps are named {:?}", S::NAME));
        }
        self.worlds
            .insert(TypeId::of::<S>(), Box::new(Arc::clone(world)));
        self
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("flows", &self.flows.keys())
            .field("steps", &self.step_names)
            .finish_non_exhaustive()
    }
}

pub(crate) struct Registry {
    flows: HashMap<&'static str, Runner>,
    worlds: HashMap<TypeId, Box<dyn Any + Send + Sync>>,
}

impl Registry {
    pub(crate) fn flow(&self, name: &str) -> Option<Runner> {
        self.flows.get(name).copied()
    }

    pub(crate) fn world<S: Step>(&self) -> Option<Arc<S::World>> {
        let world = self.worlds.get(&TypeId::of::<S>())?;
        world.downcast_ref::<Arc<S::World>>().cloned()
    }
}

/// The one sentence for a name that nobody registered.
pub(crate) fn no_flow_named(name: &str) -> String {
    format!("no flow named {name:?}; register its domain with this engine")
}

fn run_flow<F: Flow>(ctx: FlowCtx, input_json: String) -> Pin<Box<dyn Future<Output = FlowEnd>>> {
    Box::pin(async move {
        let input = match serde_json::from_str(&input_json) {
            Ok(input) => input,
            Err(error) => {
                return FlowEnd::Failed(format!(
                    "flow {:?} cannot read its input: {error}",
                    F::NAME
                ));
            }
        };
        // The text may be large, and the flow may live long.
        drop(input_json);
        let end = match F::run(ctx, input).await {
            Ok(End::Done(out)) => encode::<F>(&out).map(FlowEnd::Done),
            Ok(End::Again(input)) => {
                encode::<F>(&input).map(|input_json| FlowEnd::Again { input_json })
            }
            Err(error) => Err(error),
        };
        end.unwrap_or_else(|FlowError(why)| FlowEnd::Failed(why))
    })
}

fn encode<F: Flow>(value: &impl Serialize) -> Result<String, FlowError> {
    serde_json::to_string(value)
        .map_err(|error| FlowError(format!("flow {:?} cannot write its end: {error}", F::NAME)))
}
