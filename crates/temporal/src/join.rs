//! Joining a child that was started before. Workflow code cannot wait for a workflow it did not
//! start itself in this run, so an activity waits for it.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use temporalio_common::ActivityDefinition;
use temporalio_sdk::activities::{
    ActivityContext, ActivityDefinitions, ActivityError, ActivityImplementer, ExecutableActivity,
};
use temporalio_workflow::{ActivityOptions, RetryPolicy, WorkflowContext};
use tollgate_core::flow::{Flow, FlowError};
use tollgate_core::id::FlowId;
use tollgate_core::ports::{Engine, FlowView};

use crate::engine::TemporalEngine;

/// One wait; the activity is tried again until the child has ended.
const PATIENCE: Duration = Duration::from_secs(30);

/// The result of the flow that was first started under this id.
pub(super) async fn first<F: Flow, W>(
    ctx: &WorkflowContext<W>,
    id: FlowId,
) -> Result<F::Out, FlowError> {
    let options = ActivityOptions::with_start_to_close_timeout(PATIENCE * 2)
        .retry_policy(RetryPolicy::builder().backoff_coefficient(1.0).build())
        .build();
    match ctx.execute_activity(JoinFlow, id, options).await {
        Ok(Ended::Done(out)) => {
            serde_json::from_value(out).map_err(|error| FlowError(error.to_string()))
        }
        Ok(Ended::Failed(error)) => Err(FlowError(error)),
        Err(error) => Err(FlowError(error.to_string())),
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ended {
    Done(Value),
    Failed(String),
}

pub(super) struct JoinFlow;

impl ActivityDefinition for JoinFlow {
    type Input = FlowId;
    type Output = Ended;

    fn name(&self) -> &'static str {
        "joinFlow"
    }
}

impl ActivityImplementer for JoinFlow {
    fn register_all(self: Arc<Self>, activities: &mut ActivityDefinitions) {
        activities.register_activity::<Self>(self);
    }
}

impl ExecutableActivity for JoinFlow {
    type Implementer = Self;
    const REQUIRES_INSTANCE: bool = false;

    fn definition() -> Self {
        Self
    }

    fn execute(
        _: Option<Arc<Self>>,
        ctx: ActivityContext,
        id: FlowId,
    ) -> BoxFuture<'static, Result<Ended, ActivityError>> {
        async move { wait_for_end(&TemporalEngine::new(ctx.client(), "joinFlow"), &id).await }
            .boxed()
    }
}

async fn wait_for_end(engine: &TemporalEngine, id: &FlowId) -> Result<Ended, ActivityError> {
    match engine.view(id, PATIENCE).await? {
        FlowView::Done { result_json } => Ok(Ended::Done(serde_json::from_str(&result_json)?)),
        FlowView::Failed { error } => Ok(Ended::Failed(error)),
        FlowView::Running { .. } => Err(FlowError(format!("{id} still runs")).into()),
        FlowView::NotFound => Err(FlowError(format!("{id} is not known")).into()),
    }
}
