//! Any flow as a Temporal workflow; the workflow type is the flow's name.

use std::any::Any;
use std::marker::PhantomData;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use temporalio_common::data_converters::{
    GenericPayloadConverter, PayloadConverter, SerializationContext, SerializationContextData,
    WorkflowSerializationContext,
};
use temporalio_common::error::ApplicationFailure;
use temporalio_common::protos::temporal::api::common::v1::Payloads;
use temporalio_common::{
    HasWorkflowDefinition, QueryDefinition, SignalDefinition, UntypedWorkflow, WorkflowDefinition,
};
use temporalio_workflow::workflow_interceptors::WorkflowOutputValue;
use temporalio_workflow::workflows::{
    WorkflowDefinitionDescriptor, WorkflowError, WorkflowImplementation,
};
use temporalio_workflow::{
    ContinueAsNewOptions, WorkflowContext, WorkflowContextView, WorkflowTermination,
};
use tollgate_core::flow::{End, Flow};

use crate::context::TemporalCtx;

type Output = Box<dyn WorkflowOutputValue>;

/// The state of one run: what its query answers. Rebuilt by replay.
pub(super) struct FlowWorkflow<F> {
    pub(super) progress: Option<Value>,
    /// Of the progress that was shown from outside.
    rank: u64,
    flow: PhantomData<fn() -> F>,
}

/// The workflow's signature, for starting it as a child and for registering it.
pub(super) struct FlowRun<F>(PhantomData<fn() -> F>);

impl<F> Default for FlowRun<F> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<F: Flow> WorkflowDefinition for FlowRun<F> {
    type Input = F::In;
    type Output = F::Out;

    fn name(&self) -> &str {
        F::NAME
    }
}

impl<F: Flow> HasWorkflowDefinition for FlowRun<F> {
    type Run = Self;
}

/// What every flow answers while it runs.
pub(super) struct Progress;

impl Progress {
    const NAME: &str = "progress";
    /// The last two are what the contract of status checks calls it, of a check and of a gateway.
    const NAMES: [&str; 3] = [Self::NAME, "getProgress", "getChunkProgress"];
}

impl QueryDefinition for Progress {
    type Workflow = UntypedWorkflow;
    type Input = ();
    type Output = Option<Value>;

    fn name(&self) -> &str {
        Self::NAME
    }
}

/// How every flow is told what its steps know of its progress. It changes what the query answers and nothing else.
pub(super) struct ShowProgress;

impl ShowProgress {
    const NAME: &str = "showProgress";
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProgressSignal {
    pub(super) rank: u64,
    pub(super) progress: Value,
}

impl SignalDefinition for ShowProgress {
    type Workflow = UntypedWorkflow;
    type Input = ProgressSignal;

    fn name(&self) -> &str {
        Self::NAME
    }
}

impl<F: Flow> WorkflowImplementation for FlowWorkflow<F> {
    type Run = FlowRun<F>;

    const HAS_INIT: bool = false;
    const INIT_TAKES_INPUT: bool = false;

    fn name() -> &'static str {
        F::NAME
    }

    fn definition() -> WorkflowDefinitionDescriptor {
        WorkflowDefinitionDescriptor {
            workflow_type: F::NAME.into(),
            has_init: false,
            init_takes_input: false,
            signals: vec![ShowProgress::NAME.into()],
            queries: Progress::NAMES.iter().map(|&it| it.into()).collect(),
            updates: vec![],
        }
    }

    fn init(_: WorkflowContextView, _: Option<F::In>) -> Self {
        Self {
            progress: None,
            rank: 0,
            flow: PhantomData,
        }
    }

    fn run(
        ctx: WorkflowContext<Self>,
        input: Option<F::In>,
    ) -> LocalBoxFuture<'static, Result<Output, WorkflowTermination>> {
        let input = input.expect("without an init, the input is given to run");
        async move {
            match F::run(TemporalCtx::new(ctx.clone()), input).await {
                Ok(End::Done(out)) => Ok(Box::new(out) as Output),
                Ok(End::Again(input)) => {
                    match ctx.continue_as_new(input, ContinueAsNewOptions::default()) {
                        Ok(never) => match never {},
                        Err(termination) => Err(termination),
                    }
                }
                Err(error) => Err(ApplicationFailure::non_retryable(error).into()),
            }
        }
        .boxed_local()
    }

    fn decode_query_input(
        name: &str,
        _: &Payloads,
        _: &PayloadConverter,
    ) -> Result<Option<Box<dyn Any>>, WorkflowError> {
        let is_known = Progress::NAMES.contains(&name);
        Ok(is_known.then(|| Box::new(()) as Box<dyn Any>))
    }

    fn dispatch_query(
        &self,
        _: WorkflowContextView,
        _: &str,
        _: Box<dyn Any>,
    ) -> Result<Output, WorkflowError> {
        Ok(Box::new(self.progress.clone()))
    }

    fn decode_signal_input(
        name: &str,
        payloads: Payloads,
        converter: &PayloadConverter,
    ) -> Result<Option<Box<dyn Any>>, WorkflowError> {
        if name != ShowProgress::NAME {
            return Ok(None);
        }
        let data = SerializationContextData::Workflow(WorkflowSerializationContext::new());
        let context = SerializationContext::new(&data, converter);
        let told: ProgressSignal = converter.from_payloads(&context, payloads.payloads)?;
        Ok(Some(Box::new(told)))
    }

    fn dispatch_signal(
        ctx: WorkflowContext<Self>,
        _: &str,
        told: Box<dyn Any>,
    ) -> LocalBoxFuture<'static, Result<(), WorkflowError>> {
        if let Ok(told) = told.downcast::<ProgressSignal>() {
            ctx.state_mut(|state| {
                // Two steps may overtake each other.
                if told.rank > state.rank {
                    (state.rank, state.progress) = (told.rank, Some(told.progress));
                }
            });
        }
        std::future::ready(Ok(())).boxed_local()
    }

    // The SDK asks only for what `definition` lists: a flow has no updates.

    fn dispatch_update(
        _: WorkflowContext<Self>,
        name: &str,
        _: Box<dyn Any>,
    ) -> LocalBoxFuture<'static, Result<Output, WorkflowError>> {
        unreachable!("a flow has no update {name}")
    }

    fn validate_update(
        &self,
        _: WorkflowContextView,
        name: &str,
        _: Box<dyn Any>,
    ) -> Result<(), WorkflowError> {
        unreachable!("a flow has no update {name}")
    }
}
