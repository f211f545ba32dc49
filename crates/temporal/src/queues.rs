//! Who works on a task queue: what waits in one that nobody polls waits for ever, so it is looked at.

use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::IntoRequest;
use temporalio_common::protos::temporal::api::enums::v1::TaskQueueType;
use temporalio_common::protos::temporal::api::workflowservice::v1::DescribeTaskQueueRequest;
use tollgate_core::ports::Unreachable;

use crate::link::Link;
use crate::starts::task_queue;

#[derive(Clone)]
pub struct TaskQueues(Link);

impl std::fmt::Debug for TaskQueues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskQueues").finish_non_exhaustive()
    }
}

impl TaskQueues {
    pub(crate) fn on(link: Link) -> Self {
        Self(link)
    }

    /// How many workers run the flows of this queue. The server remembers one for five minutes
    /// after it was last heard of.
    pub async fn workers(&self, name: &str) -> Result<usize, Unreachable> {
        let mut client = self.0.client()?;
        let request = DescribeTaskQueueRequest {
            namespace: client.options().namespace.clone(),
            task_queue: Some(task_queue(name.to_owned())),
            task_queue_type: TaskQueueType::Workflow.into(),
            ..Default::default()
        };
        let described = client.describe_task_queue(request.into_request()).await;
        let described = described.map_err(|status| Unreachable(status.message().to_owned()))?;
        Ok(described.into_inner().pollers.len())
    }
}
