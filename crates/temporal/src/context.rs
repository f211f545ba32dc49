//! The port as a flow on Temporal sees it.

use std::fmt;

use serde::Serialize;
use temporalio_common::error::{
    ActivityExecutionError, ChildWorkflowExecutionError, IncomingError,
    StartChildWorkflowExecutionFailedCause as StartFailure,
};
use temporalio_workflow::{
    ActivityOptions, ChildWorkflowOptions, ChildWorkflowStartError, LocalActivityOptions,
    ParentClosePolicy, RetryPolicy, WorkflowContext, WorkflowIdReusePolicy,
};
use tollgate_core::flow::{Ctx, Flow, FlowError, Step, StepError};
use tollgate_core::id::FlowId;
use tollgate_core::retry;

use crate::activity::{LEASE, StepActivity};
use crate::join;
use crate::workflow::{FlowRun, FlowWorkflow};

pub struct TemporalCtx<F: Flow> {
    ctx: WorkflowContext<FlowWorkflow<F>>,
    id: FlowId,
}

impl<F: Flow> TemporalCtx<F> {
    pub(super) fn new(ctx: WorkflowContext<FlowWorkflow<F>>) -> Self {
        let id = FlowId::new(ctx.workflow_id());
        Self { ctx, id }
    }
}

impl<F: Flow> Clone for TemporalCtx<F> {
    fn clone(&self) -> Self {
        Self {
            ctx: self.ctx.clone(),
            id: self.id.clone(),
        }
    }
}

impl<F: Flow> fmt::Debug for TemporalCtx<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TemporalCtx").field(&self.id).finish()
    }
}

impl<F: Flow> Ctx for TemporalCtx<F> {
    fn flow_id(&self) -> &FlowId {
        &self.id
    }

    async fn step<S: Step>(&self, step: S) -> Result<S::Out, StepError> {
        let activity = StepActivity::<S>::default();
        let result = if S::SHORT {
            let options = local_options(&step);
            let local = self.ctx.execute_local_activity(activity, step, options);
            local.await
        } else {
            let options = options(&step);
            self.ctx.execute_activity(activity, step, options).await
        };
        result.map_err(|error| step_error(&error))
    }

    async fn child<G: Flow>(&self, id: FlowId, input: G::In) -> Result<G::Out, FlowError> {
        // Whoever terminates a flow has its children end, too.
        let options = ChildWorkflowOptions::builder()
            .workflow_id(id.to_string())
            .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
            .parent_close_policy(ParentClosePolicy::Terminate)
            .build();
        let run = FlowRun::<G>::default();
        match self.ctx.start_child_workflow(run, input, options).await {
            Ok(child) => child.result().await.map_err(|error| flow_error(&error)),
            Err(ChildWorkflowStartError::StartFailed {
                cause: StartFailure::WorkflowAlreadyExists,
                ..
            }) => join::first::<G, _>(&self.ctx, id).await,
            Err(error) => Err(FlowError(error.to_string())),
        }
    }

    fn progress(&self, progress: &impl Serialize) {
        let progress = serde_json::to_value(progress).expect("progress can be written as JSON");
        self.ctx.state_mut(|state| state.progress = Some(progress));
    }
}

fn options<S: Step>(step: &S) -> ActivityOptions {
    let policy = step.policy();
    ActivityOptions::with_start_to_close_timeout(policy.timeout)
        .heartbeat_timeout(LEASE)
        .activity_id(step.key())
        .retry_policy(retry_policy(&policy.retry))
        .build()
}

/// Runs in the process that runs the flow, without a way through the server's queues.
fn local_options<S: Step>(step: &S) -> LocalActivityOptions {
    let policy = step.policy();
    LocalActivityOptions::builder()
        .start_to_close_timeout(policy.timeout)
        .activity_id(step.key())
        .retry_policy(retry_policy(&policy.retry))
        .build()
}

/// Pauses of a second or more come out as asked; shorter ones as about a second. Nought means
/// "the default" to Temporal, so there is no zero here.
fn retry_policy(policy: &retry::Policy) -> RetryPolicy {
    let first = policy.first_pause.max(std::time::Duration::from_millis(1));
    RetryPolicy::builder()
        .initial_interval(first)
        .backoff_coefficient(policy.coefficient())
        .maximum_interval(policy.longest_pause.max(first))
        .maximum_attempts(policy.max_attempts.max(1))
        .build()
}

/// The step's own error, if it came to one; a timeout may be tried again.
fn step_error(error: &ActivityExecutionError) -> StepError {
    match error.cause() {
        Some(IncomingError::Application(own)) => StepError {
            message: own.to_string(),
            retry: !own.is_non_retryable(),
        },
        Some(other) => StepError::retryable(other.to_string()),
        None => StepError::last(error.to_string()),
    }
}

fn flow_error(error: &ChildWorkflowExecutionError) -> FlowError {
    let own = error.cause().map(ToString::to_string);
    FlowError(own.unwrap_or_else(|| error.to_string()))
}
