//! The embedded engine's memory: flow rows and the journal of finished steps.
//! Every write carries the node's epoch and is refused once a later node has taken over.

use std::time::Duration;

use async_trait::async_trait;

use super::{FlowView, StoreResult};
use crate::id::{Epoch, FlowId};

#[async_trait]
pub trait Flows: Send + Sync {
    /// Takes over from all earlier nodes: flows that were being run become due at once, and items
    /// that were claimed are READY again as their next run, since the node that claimed them is gone. From here on this
    /// store works under the new epoch: turns, takeovers of attempts, claims, put-backs, holds and
    /// ends are `Fenced` once a later node has taken over. A store on which this was never called
    /// (its flows run on Temporal) is never fenced.
    async fn take_node(&self) -> StoreResult<Epoch>;

    /// Writes flows that are not known yet, due after their delay. True for each that is new.
    async fn start_flows(&self, flows: Vec<NewFlow>) -> StoreResult<Vec<bool>>;

    /// Hands out due flows with their journals, each only once per epoch; children before all
    /// others, as parents in memory wait for them.
    async fn due_flows(&self, epoch: Epoch, limit: u32) -> StoreResult<DueFlows>;

    /// Records a finished step. The first record of a key stays.
    async fn journal(&self, epoch: Epoch, flow: &FlowId, entry: JournalEntry) -> StoreResult<()>;

    async fn flow_progress(&self, epoch: Epoch, flow: &FlowId, progress: String)
    -> StoreResult<()>;

    /// Ends a run of a flow and drops its journal: with a result, or anew with another input.
    async fn end_flow(&self, epoch: Epoch, flow: &FlowId, end: FlowEnd) -> StoreResult<()>;

    async fn flow(&self, id: &FlowId) -> StoreResult<FlowView>;
}

#[derive(Debug, Clone)]
pub struct NewFlow {
    pub id: FlowId,
    pub name: String,
    pub input_json: String,
    pub delay: Duration,
    pub is_child: bool,
}

#[derive(Debug, Clone, Default)]
pub struct DueFlows {
    pub flows: Vec<DueFlow>,
    /// How long until the next one; `None` when there is none.
    pub next_in: Option<Duration>,
}

#[derive(Debug, Clone)]
pub struct DueFlow {
    pub id: FlowId,
    pub name: String,
    pub input_json: String,
    pub is_child: bool,
    pub journal: Vec<JournalEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    pub key: String,
    pub result_json: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowEnd {
    Done(String),
    Failed(String),
    Again { input_json: String },
}
