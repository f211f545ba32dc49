//! What survives a crash and what does not: the flows' rows with their journals, and the state
//! of the one life of the process that runs them now.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tollgate_core::flow::{FlowError, StepError};
use tollgate_core::id::FlowId;

use super::Plan;

/// One step that was really run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepCall {
    pub flow: FlowId,
    pub step: &'static str,
    pub key: String,
}

impl fmt::Display for StepCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} \"{}\" of {}", self.step, self.key, self.flow)
    }
}

/// Why the process of this life goes no further.
#[derive(Debug)]
pub(super) enum Stop {
    Crash,
    Broken(String),
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) durable: BTreeMap<FlowId, Row>,
    pub(super) plan: Option<Plan>,
    pub(super) calls: Vec<StepCall>,
    pub(super) life: Life,
}

/// Gone after a crash.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// Flows that some future is running.
    pub(super) running: BTreeSet<FlowId>,
    /// Keys seen since the flow's run was begun or replayed.
    pub(super) keys: BTreeSet<(FlowId, String)>,
    /// The port asked to be polled again.
    pub(super) moved: bool,
    pub(super) stop: Option<Stop>,
}

/// One flow, as an engine's store would hold it.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) input: Value,
    pub(super) journal: BTreeMap<String, Record>,
    pub(super) progress: Option<Value>,
    pub(super) end: Option<Result<Value, FlowError>>,
}

#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) step: Value,
    pub(super) result: Result<Value, StepError>,
}

impl Row {
    pub(super) fn new(input: Value) -> Self {
        Self {
            input,
            journal: BTreeMap::new(),
            progress: None,
            end: None,
        }
    }
}

/// To JSON; what cannot become JSON cannot be journaled by any engine.
pub(super) fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("what a flow passes on can be written as JSON")
}

pub(super) fn parse<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("what was written as JSON can be read back")
}

/// Through JSON and back, as every engine would carry it.
pub(super) fn copy<T: Serialize + DeserializeOwned>(value: &T) -> T {
    parse(json(value))
}
