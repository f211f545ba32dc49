//! Temporal Schedules: a flow that is started again and again, never twice at once.

use std::time::Duration;

use serde_json::Value;
use temporalio_client::Client;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Code, IntoRequest, Status};
use temporalio_common::protos::temporal::api::common::v1::{Payloads, WorkflowType};
use temporalio_common::protos::temporal::api::enums::v1::ScheduleOverlapPolicy;
use temporalio_common::protos::temporal::api::schedule::v1::schedule_action::Action;
use temporalio_common::protos::temporal::api::schedule::v1::{
    IntervalSpec, Schedule, ScheduleAction, ScheduleListEntry, SchedulePolicies, ScheduleSpec,
};
use temporalio_common::protos::temporal::api::workflow::v1::NewWorkflowExecutionInfo;
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    CreateScheduleRequest, DeleteScheduleRequest, DescribeScheduleRequest, ListSchedulesRequest,
    UpdateScheduleRequest,
};
use tollgate_core::ports::Unreachable;

use crate::link::Link;
use crate::starts::{payloads, task_queue};

/// After an outage nothing older than this is made up for: one run looks at everything that is due.
/// The server allows no less.
const CATCH_UP: Duration = Duration::from_secs(10);
/// Schedules listed in one answer; more than a namespace of ours ever has.
const LISTED: i32 = 1000;

/// A flow and how often it is started.
#[derive(Debug, Clone, PartialEq)]
pub struct Recurring {
    /// Of the schedule; the flows it starts have it too, followed by their time.
    pub id: String,
    pub flow: String,
    pub task_queue: String,
    pub input: Value,
    pub every: Duration,
}

#[derive(Clone)]
pub struct Schedules {
    link: Link,
    caller: String,
}

impl std::fmt::Debug for Schedules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schedules").finish_non_exhaustive()
    }
}

impl Schedules {
    pub(crate) fn on(link: Link, caller: String) -> Self {
        Self { link, caller }
    }

    /// Makes the schedule what it is to be. What a person has set in Temporal, a pause or a note,
    /// stays. True if something had to be changed.
    pub async fn keep(&self, recurring: &Recurring) -> Result<bool, Unreachable> {
        let mut client = self.link.client()?;
        let wanted = schedule(&client, recurring).await?;
        let asked = DescribeScheduleRequest {
            namespace: namespace(&client),
            schedule_id: recurring.id.clone(),
        };
        let described = match client.describe_schedule(asked.into_request()).await {
            Ok(described) => described.into_inner(),
            Err(status) if status.code() == Code::NotFound => {
                return self.create(&mut client, recurring, wanted).await;
            }
            Err(status) => return Err(away(&status)),
        };
        let found = described.schedule.unwrap_or_default();
        if is_as_wanted(&found, &wanted) {
            return Ok(false);
        }
        let request = UpdateScheduleRequest {
            namespace: namespace(&client),
            schedule_id: recurring.id.clone(),
            schedule: Some(Schedule {
                state: found.state,
                ..wanted
            }),
            // Whoever was faster wanted the same.
            conflict_token: described.conflict_token,
            identity: self.caller.clone(),
            ..Default::default()
        };
        let updated = client.update_schedule(request.into_request()).await;
        updated.map(|_| true).map_err(|status| away(&status))
    }

    async fn create(
        &self,
        client: &mut Client,
        recurring: &Recurring,
        schedule: Schedule,
    ) -> Result<bool, Unreachable> {
        let request = CreateScheduleRequest {
            namespace: namespace(client),
            schedule_id: recurring.id.clone(),
            schedule: Some(schedule),
            identity: self.caller.clone(),
            request_id: format!("{}-{}", self.caller, recurring.id),
            ..Default::default()
        };
        match WorkflowService::create_schedule(client, request.into_request()).await {
            Ok(_) => Ok(true),
            // Another node was faster, and wanted the same.
            Err(status) if status.code() == Code::AlreadyExists => Ok(false),
            Err(status) => Err(away(&status)),
        }
    }

    /// The ids of all schedules in this namespace that begin like this and start this flow.
    pub async fn ids(&self, prefix: &str, flow: &str) -> Result<Vec<String>, Unreachable> {
        let mut client = self.link.client()?;
        let request = ListSchedulesRequest {
            namespace: namespace(&client),
            maximum_page_size: LISTED,
            ..Default::default()
        };
        let listed = WorkflowService::list_schedules(&mut client, request.into_request()).await;
        let listed = listed.map_err(|status| away(&status))?.into_inner();
        let starts_it = |entry: &ScheduleListEntry| {
            let started = entry.info.as_ref()?.workflow_type.as_ref()?;
            Some(started.name == flow)
        };
        let listed = listed.schedules.into_iter();
        let ids = listed.filter(|entry| starts_it(entry) == Some(true));
        let ids = ids.map(|entry| entry.schedule_id);
        Ok(ids.filter(|id| id.starts_with(prefix)).collect())
    }

    /// The task queue on which a schedule starts its flow; `None` if there is no such schedule.
    pub async fn task_queue(&self, id: &str) -> Result<Option<String>, Unreachable> {
        let mut client = self.link.client()?;
        let asked = DescribeScheduleRequest {
            namespace: namespace(&client),
            schedule_id: id.to_owned(),
        };
        match client.describe_schedule(asked.into_request()).await {
            Ok(described) => {
                let found = described.into_inner().schedule;
                Ok(found.as_ref().and_then(starts).map(|(_, queue)| queue))
            }
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(away(&status)),
        }
    }

    /// Ends it; what it has started goes on.
    pub async fn remove(&self, id: &str) -> Result<(), Unreachable> {
        let mut client = self.link.client()?;
        let request = DeleteScheduleRequest {
            namespace: namespace(&client),
            schedule_id: id.to_owned(),
            identity: self.caller.clone(),
        };
        match client.delete_schedule(request.into_request()).await {
            Ok(_) => Ok(()),
            Err(status) if status.code() == Code::NotFound => Ok(()),
            Err(status) => Err(away(&status)),
        }
    }
}

async fn schedule(client: &Client, recurring: &Recurring) -> Result<Schedule, Unreachable> {
    let input = payloads(client, &recurring.input).await;
    let input = input.map_err(|error| Unreachable(error.to_string()))?;
    let flow = NewWorkflowExecutionInfo {
        workflow_id: recurring.id.clone(),
        workflow_type: Some(WorkflowType {
            name: recurring.flow.clone(),
        }),
        task_queue: Some(task_queue(recurring.task_queue.clone())),
        input: Some(Payloads { payloads: input }),
        ..Default::default()
    };
    Ok(Schedule {
        spec: Some(ScheduleSpec {
            interval: vec![IntervalSpec {
                interval: recurring.every.try_into().ok(),
                phase: None,
            }],
            ..Default::default()
        }),
        action: Some(ScheduleAction {
            action: Some(Action::StartWorkflow(flow)),
        }),
        policies: Some(SchedulePolicies {
            overlap_policy: ScheduleOverlapPolicy::Skip.into(),
            catchup_window: CATCH_UP.try_into().ok(),
            ..Default::default()
        }),
        state: None,
    })
}

/// The server fills in what was left out, so only what we have set is compared. The input is not:
/// it may be encrypted anew every time, and follows from the rest.
fn is_as_wanted(found: &Schedule, wanted: &Schedule) -> bool {
    let intervals = |schedule: &Schedule| -> Vec<_> {
        let spec = schedule.spec.iter();
        spec.flat_map(|spec| spec.interval.iter().map(|each| each.interval))
            .collect()
    };
    let policies = |schedule: &Schedule| {
        let policies = schedule.policies.as_ref()?;
        Some((policies.overlap_policy, policies.catchup_window))
    };
    intervals(found) == intervals(wanted)
        && starts(found) == starts(wanted)
        && policies(found) == policies(wanted)
}

/// A flow and its task queue.
fn starts(schedule: &Schedule) -> Option<(String, String)> {
    let action = schedule.action.as_ref()?.action.as_ref()?;
    let Action::StartWorkflow(flow) = action;
    let queue = flow.task_queue.as_ref()?.name.clone();
    Some((flow.workflow_type.as_ref()?.name.clone(), queue))
}

fn namespace(client: &Client) -> String {
    client.options().namespace.clone()
}

fn away(status: &Status) -> Unreachable {
    Unreachable(status.message().to_owned())
}
