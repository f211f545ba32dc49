//! An engine: runs flows to their end, through crashes.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

use crate::id::FlowId;

#[async_trait]
pub trait Engine: Send + Sync {
    /// Starts flows; answers in their order, after they are durable. Starting an id twice is
    /// harmless. If the engine goes away in between, the answers end there; nothing is known of
    /// the flows without one, and `Unreachable` says so of all of them.
    async fn start(&self, flows: Vec<Start>) -> Result<Vec<Started>, Unreachable>;

    /// A flow's state; waits up to `wait` for its end.
    async fn view(&self, id: &FlowId, wait: Duration) -> Result<FlowView, Unreachable>;

    /// Shows how far a running flow has come, as a step knows it, to those who ask the engine's own tools. The
    /// highest `rank` wins, and whatever the flow shows itself afterwards. An engine without such tools drops it.
    async fn show(&self, _id: &FlowId, _progress: Shown) -> Result<(), Unreachable> {
        Ok(())
    }
}

/// How far a flow has come.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Grows with the work that is done.
    pub rank: u64,
    pub progress_json: String,
}

#[derive(Debug, Clone)]
pub struct Start {
    pub id: FlowId,
    /// The flow's registered name.
    pub name: String,
    pub task_queue: String,
    pub input_json: String,
    pub delay: Duration,
    pub memo: Memo,
}

/// What an engine's own tools show beside a flow, for a person who looks for it. It is never
/// encrypted, and an engine without such tools drops it.
pub type Memo = BTreeMap<&'static str, String>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    New,
    /// The id is known: running or ended. Counts as success.
    Already,
    Failed(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowView {
    NotFound,
    Running { progress_json: Option<String> },
    Done { result_json: String },
    Failed { error: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the engine cannot be reached: {0}")]
pub struct Unreachable(pub String);
