//! Starting flows. It goes through the raw request, because the client's own options know neither
//! a start delay nor a request id.

use std::collections::HashMap;

use serde_json::Value;
use temporalio_client::Client;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Code, IntoRequest, Status};
use temporalio_common::data_converters::{SerializationContextData, WorkflowSerializationContext};
use temporalio_common::protos::temporal::api::common::v1::{
    Memo as Shown, Payload, Payloads, WorkflowType,
};
use temporalio_common::protos::temporal::api::enums::v1::WorkflowIdReusePolicy;
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::workflowservice::v1::StartWorkflowExecutionRequest;
use tollgate_core::ports::{Memo, Start, Started, Unreachable};

/// Who asks for the start, and under which name: the server answers a repeated request id as if it
/// were new, which is right for a lost reply and wrong for a second start.
pub(crate) struct StartRequest<'a> {
    pub(crate) caller: &'a str,
    pub(crate) request_id: String,
}

pub(crate) async fn start(
    mut client: Client,
    flow: Start,
    asked: StartRequest<'_>,
) -> Result<Started, Unreachable> {
    let request = match request(&client, flow, asked).await {
        Ok(request) => request,
        Err(error) => return Ok(Started::Failed(error.to_string())),
    };
    match client
        .start_workflow_execution(request.into_request())
        .await
    {
        Ok(_) => Ok(Started::New),
        Err(status) => refused(&status),
    }
}

async fn request(
    client: &Client,
    flow: Start,
    asked: StartRequest<'_>,
) -> anyhow::Result<StartWorkflowExecutionRequest> {
    let input: Value = serde_json::from_str(&flow.input_json)?;
    let delay = (!flow.delay.is_zero()).then(|| flow.delay.try_into());
    Ok(StartWorkflowExecutionRequest {
        namespace: client.options().namespace.clone(),
        workflow_id: flow.id.to_string(),
        workflow_type: Some(WorkflowType { name: flow.name }),
        task_queue: Some(task_queue(flow.task_queue)),
        input: Some(Payloads {
            payloads: payloads(client, &input).await?,
        }),
        identity: asked.caller.to_owned(),
        request_id: asked.request_id,
        workflow_id_reuse_policy: WorkflowIdReusePolicy::RejectDuplicate.into(),
        workflow_start_delay: delay.transpose()?,
        memo: shown(flow.memo),
        ..Default::default()
    })
}

/// As Temporal's own tools read it, hence past the client's converter: it may encrypt.
fn shown(memo: Memo) -> Option<Shown> {
    let payload = |text: String| Payload {
        metadata: [("encoding".to_owned(), b"json/plain".to_vec())].into(),
        data: Value::from(text).to_string().into_bytes(),
        ..Default::default()
    };
    let fields = memo
        .into_iter()
        .map(|(name, text)| (name.to_owned(), payload(text)));
    let fields: HashMap<_, _> = fields.collect();
    (!fields.is_empty()).then_some(Shown { fields })
}

/// A workflow's input as the client's converter writes it.
pub(crate) async fn payloads(client: &Client, input: &Value) -> anyhow::Result<Vec<Payload>> {
    let context = SerializationContextData::Workflow(WorkflowSerializationContext::new());
    let converter = &client.options().data_converter;
    Ok(converter.to_payloads(&context, input).await?)
}

pub(crate) fn task_queue(name: String) -> TaskQueue {
    TaskQueue {
        name,
        ..Default::default()
    }
}

/// Only what is wrong with this very flow is its failure: a namespace that is gone or a key that
/// has expired is everybody's, and counts for nobody.
fn refused(status: &Status) -> Result<Started, Unreachable> {
    match status.code() {
        Code::AlreadyExists => Ok(Started::Already),
        Code::InvalidArgument => Ok(Started::Failed(status.message().to_owned())),
        _ => Err(Unreachable(status.message().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wrong_with_the_flow_itself_counts_against_it() {
        let table = [
            (Code::AlreadyExists, Some(Started::Already)),
            (Code::InvalidArgument, Some(Started::Failed("why".into()))),
            (Code::NotFound, None),
            (Code::PermissionDenied, None),
            (Code::Unauthenticated, None),
            (Code::ResourceExhausted, None),
            (Code::Unavailable, None),
            (Code::DeadlineExceeded, None),
        ];
        for (code, expected) in table {
            let judged = refused(&Status::new(code, "why"));
            assert_eq!(judged.ok(), expected, "{code:?}");
        }
    }
}
