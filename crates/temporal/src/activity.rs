//! Any step as a Temporal activity; the activity type is the step's name, its id the step's key.
//!
//! While it works, its process says so to the server: a step whose process is gone is given to
//! another after the lease, long before its own timeout.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use temporalio_common::ActivityDefinition;
use temporalio_common::error::ApplicationFailure;
use temporalio_sdk::activities::{
    ActivityContext, ActivityDefinitions, ActivityError, ActivityImplementer, ExecutableActivity,
};
use tollgate_core::flow::{Call, Step, StepError};
use tollgate_core::id::FlowId;

/// A step whose process has not been heard of for so long is tried again, anywhere.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// How often a process says that it still works on a step. Short steps never do.
const SIGN_OF_LIFE: Duration = Duration::from_secs(4);

pub(super) struct StepActivity<S>(PhantomData<fn() -> S>);

impl<S> Default for StepActivity<S> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// What the step acts on, in the shape the SDK wants.
pub(super) struct StepWorld<S: Step>(pub(super) Arc<S::World>);

impl<S: Step> ActivityDefinition for StepActivity<S> {
    type Input = S;
    type Output = S::Out;

    fn name(&self) -> &str {
        S::NAME
    }
}

impl<S: Step> ActivityImplementer for StepWorld<S> {
    fn register_all(self: Arc<Self>, activities: &mut ActivityDefinitions) {
        activities.register_activity::<StepActivity<S>>(self);
    }
}

impl<S: Step> ExecutableActivity for StepActivity<S> {
    type Implementer = StepWorld<S>;
    const REQUIRES_INSTANCE: bool = true;

    fn definition() -> Self {
        Self::default()
    }

    fn execute(
        world: Option<Arc<StepWorld<S>>>,
        ctx: ActivityContext,
        step: S,
    ) -> BoxFuture<'static, Result<S::Out, ActivityError>> {
        let world = world.expect("registered with its world").0.clone();
        let info = ctx.info();
        let flow = info.workflow_id.clone();
        let call = Call {
            flow_id: FlowId::new(flow.expect("a step is only called by a flow")),
            attempt: info.attempt,
        };
        async move {
            let result = tokio::select! {
                result = in_time(&step, &world, &call) => Ok(result),
                why = given_up(&ctx) => Err(why),
            };
            let result = match result {
                Ok(result) => result,
                Err(why) => {
                    let rest = S::after_cut_off(&world);
                    let _ = tokio::time::timeout(step.policy().timeout, rest).await;
                    Err(StepError::retryable(why))
                }
            };
            result.map_err(failure)
        }
        .boxed()
    }
}

/// Gives signs of life until somebody wants this try to end: the server, which has given it to
/// another process, or this process, which stops. Its work is cut off: it takes no further turn, what it has
/// sent is answered and settled, and only then is the step tried again by another.
async fn given_up(ctx: &ActivityContext) -> &'static str {
    loop {
        tokio::select! {
            () = ctx.cancelled() => return "interrupted: its process is stopping, or another process took over",
            () = tokio::time::sleep(SIGN_OF_LIFE) => {}
        }
        // It cannot fail: there is nothing in it to convert.
        let _ = ctx.record_heartbeat(()).await;
    }
}

/// The server gives up on a step after its timeout, but the SDK lets its work go on: it would
/// hold a slot, and the worker could not stop.
async fn in_time<S: Step>(step: &S, world: &S::World, call: &Call) -> Result<S::Out, StepError> {
    let timeout = step.policy().timeout;
    match tokio::time::timeout(timeout, step.run(world, call)).await {
        Ok(result) => result,
        Err(_) => Err(StepError::retryable(format!("timed out after {timeout:?}"))),
    }
}

fn failure(error: StepError) -> ActivityError {
    let retry = error.retry;
    let failure = ApplicationFailure::builder(error).non_retryable(!retry);
    ActivityError::application(failure.build())
}
