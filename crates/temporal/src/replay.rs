//! Replays recorded histories against the flows of this release: what a running flow would meet
//! after an upgrade.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use temporalio_client::{WorkflowFetchHistoryOptions, WorkflowHistory};
use temporalio_common::UntypedWorkflow;
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};
use tollgate_core::flow::{Flow, Registrar, Step};
use tollgate_core::id::FlowId;

use crate::connect::Server;
use crate::workflow::FlowWorkflow;

/// The flows to replay. Steps are not run: their results are in the history.
pub struct Replay {
    options: WorkflowReplayerOptions,
    names: BTreeSet<&'static str>,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").finish_non_exhaustive()
    }
}

impl Default for Replay {
    fn default() -> Self {
        Self {
            options: WorkflowReplayerOptions::new().build(),
            names: BTreeSet::new(),
        }
    }
}

impl Registrar for Replay {
    fn flow<F: Flow>(&mut self) -> &mut Self {
        self.names.insert(F::NAME);
        let registered = self.options.register_workflow::<FlowWorkflow<F>>();
        registered.expect("each flow is registered once");
        self
    }
    fn step<S: Step>(&mut self, _: &Arc<S::World>) -> &mut Self {
        self
    }
}

impl Replay {
    /// Of all flows that are registered.
    pub fn names(&self) -> &BTreeSet<&'static str> {
        &self.names
    }

    /// Fails when this release would go another way than the history did, as [`record`] wrote it.
    pub async fn replay(&self, history: &[u8]) -> anyhow::Result<()> {
        let history = WorkflowHistory::from_json(history)?;
        let replayer = WorkflowReplayer::new(self.options.clone())?;
        Ok(replayer.replay_workflow(history).await?)
    }
}

/// The history of a flow, as JSON in the SDK's own form (that of Temporal's tools is another).
pub async fn record(server: &Server, id: &FlowId) -> anyhow::Result<Vec<u8>> {
    let client = server.connect().await?;
    let flow = client.get_workflow_handle::<UntypedWorkflow>(id.as_str());
    let history = flow.fetch_history(WorkflowFetchHistoryOptions::default());
    let json: Value = serde_json::from_slice(&history.to_json().await?)?;
    Ok(serde_json::to_vec_pretty(&json)?)
}
