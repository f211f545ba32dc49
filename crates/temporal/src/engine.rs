//! The `Engine` port over Temporal's client. Starts go through the raw request, because the
//! client's own options know neither a start delay nor a request id.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;
use temporalio_client::errors::{
    WorkflowGetResultError, WorkflowInteractionError, WorkflowQueryError,
};
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Code, IntoRequest, Status};
use temporalio_client::{
    Client, ClientOptions, Connection, ConnectionOptions, Url, WorkflowDescribeOptions,
    WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowGetResultOptions,
    WorkflowHandle, WorkflowQueryOptions,
};
use temporalio_common::UntypedWorkflow;
use temporalio_common::data_converters::{
    RawValue, SerializationContextData, WorkflowSerializationContext,
};
use temporalio_common::protos::temporal::api::common::v1::{Payloads, WorkflowType};
use temporalio_common::protos::temporal::api::enums::v1::WorkflowIdReusePolicy;
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::workflowservice::v1::StartWorkflowExecutionRequest;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{Engine, FlowView, Start, Started, Unreachable};

use crate::workflow::Progress;

type Handle = WorkflowHandle<Client, UntypedWorkflow>;

/// Starts under way at once: a start is cheap for us and slow for the server.
const STARTS_AT_ONCE: usize = 16;
/// A query waits for a worker; without one there is no progress to show.
const QUERY_PATIENCE: Duration = Duration::from_secs(5);

/// A client of the namespace `default` on a server without TLS.
pub async fn connect(address: &str) -> anyhow::Result<Client> {
    let options = ConnectionOptions::new(Url::parse(address)?).identity("conformance");
    let connection = Connection::connect(options.build()).await?;
    Ok(Client::new(
        connection,
        ClientOptions::new("default").build(),
    )?)
}

/// A request id names one call of `start`, not the flow: the server answers a repeated request
/// id as if it were new, which is right for a lost reply and wrong for a second start.
pub struct TemporalEngine {
    client: Client,
    caller: String,
    starts: AtomicU64,
}

impl std::fmt::Debug for TemporalEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TemporalEngine").finish_non_exhaustive()
    }
}

#[async_trait]
impl Engine for TemporalEngine {
    async fn start(&self, flows: Vec<Start>) -> Result<Vec<Started>, Unreachable> {
        let starts = flows.into_iter().map(|flow| self.start_one(flow));
        stream::iter(starts)
            .buffered(STARTS_AT_ONCE)
            .try_collect()
            .await
    }

    async fn view(&self, id: &FlowId, wait: Duration) -> Result<FlowView, Unreachable> {
        self.wait_for(id, wait).await
    }
}

impl TemporalEngine {
    /// `caller` differs from that of every other process on this namespace, earlier ones too.
    pub fn new(client: Client, caller: impl Into<String>) -> Self {
        Self {
            client,
            caller: caller.into(),
            starts: AtomicU64::new(0),
        }
    }

    async fn start_one(&self, flow: Start) -> Result<Started, Unreachable> {
        let request = match self.start_request(flow).await {
            Ok(request) => request,
            Err(error) => return Ok(Started::Failed(error.to_string())),
        };
        let mut client = self.client.clone();
        match client
            .start_workflow_execution(request.into_request())
            .await
        {
            Ok(_) => Ok(Started::New),
            Err(status) => refused_start(&status),
        }
    }

    async fn start_request(&self, flow: Start) -> anyhow::Result<StartWorkflowExecutionRequest> {
        let input: Value = serde_json::from_str(&flow.input_json)?;
        let options = self.client.options();
        let context = SerializationContextData::Workflow(WorkflowSerializationContext::new());
        let payloads = options.data_converter.to_payloads(&context, &input).await?;
        let call = self.starts.fetch_add(1, Ordering::Relaxed);
        let delay = (!flow.delay.is_zero()).then(|| flow.delay.try_into());
        Ok(StartWorkflowExecutionRequest {
            namespace: options.namespace.clone(),
            workflow_id: flow.id.to_string(),
            workflow_type: Some(WorkflowType { name: flow.name }),
            task_queue: Some(TaskQueue {
                name: flow.task_queue,
                ..Default::default()
            }),
            input: Some(Payloads { payloads }),
            identity: self.caller.clone(),
            request_id: format!("{}-{call}", self.caller),
            workflow_id_reuse_policy: WorkflowIdReusePolicy::RejectDuplicate.into(),
            workflow_start_delay: delay.transpose()?,
            ..Default::default()
        })
    }

    /// A flow's state, after its end if that comes within `wait`.
    pub(super) async fn wait_for(
        &self,
        id: &FlowId,
        wait: Duration,
    ) -> Result<FlowView, Unreachable> {
        let flow = self
            .client
            .get_workflow_handle::<UntypedWorkflow>(id.as_str());
        let Some(described) = describe(&flow).await? else {
            return Ok(FlowView::NotFound);
        };
        let patience = match described.status() {
            WorkflowExecutionStatus::Running | WorkflowExecutionStatus::ContinuedAsNew => wait,
            // Every other status is an end, whose kind the result tells.
            _ => QUERY_PATIENCE,
        };
        if !patience.is_zero() {
            let result = flow.get_result(WorkflowGetResultOptions::default());
            if let Ok(result) = tokio::time::timeout(patience, result).await {
                return ended(result);
            }
        }
        Ok(FlowView::Running {
            progress_json: progress(&flow).await?,
        })
    }
}

async fn describe(flow: &Handle) -> Result<Option<WorkflowExecutionDescription>, Unreachable> {
    match flow.describe(WorkflowDescribeOptions::default()).await {
        Ok(described) => Ok(Some(described)),
        Err(WorkflowInteractionError::NotFound(_)) => Ok(None),
        Err(error) => Err(Unreachable(error.to_string())),
    }
}

fn refused_start(status: &Status) -> Result<Started, Unreachable> {
    match status.code() {
        Code::AlreadyExists => Ok(Started::Already),
        Code::InvalidArgument | Code::NotFound | Code::PermissionDenied => {
            Ok(Started::Failed(status.message().to_owned()))
        }
        _ => Err(Unreachable(status.to_string())),
    }
}

fn ended(result: Result<RawValue, WorkflowGetResultError>) -> Result<FlowView, Unreachable> {
    match result {
        Ok(raw) => Ok(FlowView::Done {
            result_json: json_text(raw),
        }),
        Err(WorkflowGetResultError::Failed(error)) => Ok(FlowView::Failed {
            error: error.to_string(),
        }),
        Err(WorkflowGetResultError::NotFound(_)) => Ok(FlowView::NotFound),
        Err(WorkflowGetResultError::Rpc(status)) => Err(Unreachable(status.to_string())),
        Err(error) => Ok(FlowView::Failed {
            error: error.to_string(),
        }),
    }
}

/// A result as JSON text; nothing at all is how Temporal writes `null`.
fn json_text(raw: RawValue) -> String {
    let data = raw.payloads.into_iter().next().unwrap_or_default().data;
    match String::from_utf8(data) {
        Ok(text) if !text.is_empty() => text,
        _ => "null".into(),
    }
}

/// What the flow shows. One event means that its start delay is not over: a query would wait for
/// that, so it is not asked.
async fn progress(flow: &Handle) -> Result<Option<String>, Unreachable> {
    let described = describe(flow).await?;
    if described.is_none_or(|described| described.history_length() <= 1) {
        return Ok(None);
    }
    let query = flow.query(Progress, (), WorkflowQueryOptions::default());
    match tokio::time::timeout(QUERY_PATIENCE, query).await {
        Ok(Ok(progress)) => Ok(progress.map(|progress| progress.to_string())),
        Ok(Err(WorkflowQueryError::Rpc(status))) if status.code() == Code::Unavailable => {
            Err(Unreachable(status.to_string()))
        }
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}
