//! What the flows of a namespace cost, read from their histories: events, and what Temporal Cloud would bill as
//! actions.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result};
use serde_json::Value;
use tollgate_conformance::temporal::TemporalServer;

/// Of some flows together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cost {
    pub(super) flows: f64,
    pub(super) events: f64,
    pub(super) actions: f64,
}

/// By type of flow. Ended flows of one type whose histories are equally long have gone the same way, so that one of
/// them is read for all; the list does not have the length of one that runs.
pub(super) fn by_type(server: &TemporalServer, namespace: &str) -> Result<HashMap<String, Cost>> {
    let list = ["workflow", "list", "--namespace", namespace, "-o", "json"];
    let listed = server.ask(&list).context("the server does not list")?;
    let mut known: HashMap<(String, String), (f64, f64)> = HashMap::new();
    let mut costs: HashMap<String, Cost> = HashMap::new();
    for flow in rows(&listed)? {
        let name = flow["type"]["name"].as_str().context("no type")?.to_owned();
        let like = flow["historyLength"].as_str();
        let like = like.map(|length| (name.clone(), length.to_owned()));
        let (events, actions) = match like.as_ref().and_then(|like| known.get(like)) {
            Some(known) => *known,
            None => {
                let events = history(server, namespace, &flow["execution"])?;
                let length = u32::try_from(events.len()).unwrap_or(u32::MAX);
                let counted = (f64::from(length), actions(&events));
                known.extend(like.map(|like| (like, counted)));
                counted
            }
        };
        let cost = costs.entry(name).or_default();
        cost.flows += 1.0;
        cost.events += events;
        cost.actions += actions;
    }
    Ok(costs)
}

fn history(server: &TemporalServer, namespace: &str, execution: &Value) -> Result<Vec<Value>> {
    let [id, run] = ["workflowId", "runId"].map(|name| execution[name].as_str());
    let (id, run) = id.zip(run).context("no id of a flow")?;
    let show = ["workflow", "show", "--namespace", namespace, "-o", "json"];
    let of = ["--workflow-id", id, "--run-id", run];
    let shown = server.ask(&[&show[..], &of[..]].concat());
    let shown: Value =
        serde_json::from_str(&shown.with_context(|| format!("no history of {id}"))?)?;
    let events = shown["events"].as_array();
    events
        .cloned()
        .with_context(|| format!("no events of {id}"))
}

/// Starts, activities with every try of them, timers, signals and updates; all local activities of one workflow
/// task are one. Heartbeats do not show in a history.
fn actions(events: &[Value]) -> f64 {
    let mut actions = 0.0;
    let mut tasks_with_local_ones = HashSet::new();
    for event in events {
        let kind = event["eventType"].as_str().unwrap_or_default();
        match kind.trim_start_matches("EVENT_TYPE_") {
            "WORKFLOW_EXECUTION_STARTED"
            | "WORKFLOW_EXECUTION_SIGNALED"
            | "WORKFLOW_EXECUTION_UPDATE_ACCEPTED"
            | "TIMER_STARTED"
            | "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES" => actions += 1.0,
            "ACTIVITY_TASK_STARTED" => {
                let tries = &event["activityTaskStartedEventAttributes"]["attempt"];
                actions += tries.as_f64().unwrap_or(1.0);
            }
            "MARKER_RECORDED" => {
                let of = &event["markerRecordedEventAttributes"]["workflowTaskCompletedEventId"];
                if tasks_with_local_ones.insert(of.to_string()) {
                    actions += 1.0;
                }
            }
            _ => {}
        }
    }
    actions
}

/// Of a list that the command line prints as one array, or as one object after the other.
fn rows(text: &str) -> Result<Vec<Value>> {
    let mut rows = vec![];
    for value in serde_json::Deserializer::from_str(text).into_iter() {
        match value? {
            Value::Array(more) => rows.extend(more),
            other => rows.push(other),
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tries_count_and_local_activities_of_one_task_are_one_action() {
        let local = |task| {
            json!({"eventType": "EVENT_TYPE_MARKER_RECORDED",
            "markerRecordedEventAttributes": {"workflowTaskCompletedEventId": task}})
        };
        let events = [
            json!({"eventType": "EVENT_TYPE_WORKFLOW_EXECUTION_STARTED"}),
            json!({"eventType": "EVENT_TYPE_WORKFLOW_TASK_SCHEDULED"}),
            local("4"),
            local("4"),
            local("9"),
            json!({"eventType": "EVENT_TYPE_ACTIVITY_TASK_STARTED",
                "activityTaskStartedEventAttributes": {"attempt": 3}}),
        ];
        assert!((actions(&events) - 6.0).abs() < 1e-9);
    }
}
