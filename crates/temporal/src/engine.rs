//! The `Engine` port over Temporal's client: starts flows and looks at them. It runs nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use temporalio_client::errors::{
    WorkflowGetResultError, WorkflowInteractionError, WorkflowQueryError,
};
use temporalio_client::tonic::Code;
use temporalio_client::{
    Client, WorkflowDescribeOptions, WorkflowExecutionDescription, WorkflowExecutionStatus,
    WorkflowGetResultOptions, WorkflowHandle, WorkflowQueryOptions, WorkflowSignalOptions,
};
use temporalio_common::UntypedWorkflow;
use temporalio_common::data_converters::RawValue;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{Engine, FlowView, Shown, Start, Started, Unreachable};

use crate::link::Link;
use crate::starts::{self, StartRequest};
use crate::workflow::{Progress, ProgressSignal, ShowProgress};

type Handle = WorkflowHandle<Client, UntypedWorkflow>;

/// Starts under way at once: a start is cheap for us and slow for the server.
const STARTS_AT_ONCE: usize = 16;
/// A query waits for a worker; without one there is no progress to show.
const QUERY_PATIENCE: Duration = Duration::from_secs(5);
/// A flow with no more events than these has not been worked on: it was started, and perhaps its
/// first task waits for a worker.
const EVENTS_BEFORE_WORK: usize = 2;

pub struct TemporalEngine {
    link: Link,
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
        let client = self.link.client()?;
        let starts = flows.into_iter().map(|flow| {
            let asked = StartRequest {
                caller: &self.caller,
                request_id: self.next_request_id(),
            };
            starts::start(client.clone(), flow, asked)
        });
        let mut answers = stream::iter(starts).buffered(STARTS_AT_ONCE);
        let mut started = vec![];
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(answer) => started.push(answer),
                Err(away) if started.is_empty() => return Err(away),
                Err(_) => break,
            }
        }
        Ok(started)
    }

    async fn view(&self, id: &FlowId, wait: Duration) -> Result<FlowView, Unreachable> {
        let client = self.link.client()?;
        let flow = client.get_workflow_handle::<UntypedWorkflow>(id.as_str());
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

    async fn show(&self, id: &FlowId, shown: Shown) -> Result<(), Unreachable> {
        let client = self.link.client()?;
        let flow = client.get_workflow_handle::<UntypedWorkflow>(id.as_str());
        let progress = serde_json::from_str(&shown.progress_json);
        let told = ProgressSignal {
            rank: shown.rank,
            progress: progress.map_err(|error| Unreachable(error.to_string()))?,
        };
        let told = flow.signal(ShowProgress, told, WorkflowSignalOptions::default());
        told.await.map_err(|error| Unreachable(error.to_string()))
    }
}

impl TemporalEngine {
    /// `caller` differs from that of every other process on this namespace, earlier ones too.
    pub fn new(client: Client, caller: impl Into<String>) -> Self {
        Self::on(Link::to(client), caller.into())
    }

    pub(crate) fn on(link: Link, caller: String) -> Self {
        Self {
            link,
            caller,
            starts: AtomicU64::new(0),
        }
    }

    /// Names one call of `start`, not the flow.
    fn next_request_id(&self) -> String {
        let call = self.starts.fetch_add(1, Ordering::Relaxed);
        format!("{}-{call}", self.caller)
    }
}

async fn describe(flow: &Handle) -> Result<Option<WorkflowExecutionDescription>, Unreachable> {
    match flow.describe(WorkflowDescribeOptions::default()).await {
        Ok(described) => Ok(Some(described)),
        Err(WorkflowInteractionError::NotFound(_)) => Ok(None),
        Err(error) => Err(Unreachable(error.to_string())),
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

/// What the flow shows. One that waits for its time or for its first worker shows nothing: a query
/// would wait with it, so it is not asked.
async fn progress(flow: &Handle) -> Result<Option<String>, Unreachable> {
    let described = describe(flow).await?;
    if described.is_none_or(|described| described.history_length() <= EVENTS_BEFORE_WORK) {
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
