//! Schedules: made, changed and removed, and what a person has set stays.

use std::time::Duration;

use serde_json::json;
use tollgate_conformance::temporal::TemporalServer;
use tollgate_temporal::{Recurring, TemporalService};

use crate::at;

const FLOW: &str = "DispatcherWorkflow";
const QUEUE: &str = "dispatch-task-queue";

fn every(secs: u64) -> Recurring {
    Recurring {
        id: "dispatch-thing".to_owned(),
        flow: FLOW.to_owned(),
        task_queue: QUEUE.to_owned(),
        input: json!({"itemType": "THING", "intervalSecs": secs}),
        every: Duration::from_secs(secs),
    }
}

fn described(server: &TemporalServer) -> String {
    let question = ["schedule", "describe", "--schedule-id", "dispatch-thing"];
    let json = [&question[..], &["--output", "json"]].concat();
    server.ask(&json).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_made_changed_and_removed_and_a_pause_stays() {
    let server = TemporalServer::start();
    let service = TemporalService::connect(at(&server, "keeper"))
        .await
        .unwrap();
    let schedules = service.schedules();
    assert!(schedules.keep(&every(3600)).await.unwrap());
    assert!(
        !schedules.keep(&every(3600)).await.unwrap(),
        "it is as wanted"
    );
    let made = described(&server);
    assert!(made.contains("\"interval\": \"3600s\""), "{made}");
    assert!(made.contains("SCHEDULE_OVERLAP_POLICY_SKIP"), "{made}");
    assert!(made.contains("\"catchupWindow\": \"10s\""), "{made}");

    let pause = [
        "schedule",
        "toggle",
        "--pause",
        "--reason",
        "by hand",
        "--schedule-id",
        "dispatch-thing",
    ];
    server.ask(&pause).unwrap();
    assert!(schedules.keep(&every(1800)).await.unwrap());
    let changed = described(&server);
    assert!(changed.contains("\"interval\": \"1800s\""), "{changed}");
    assert!(changed.contains("\"paused\": true"), "{changed}");

    // Lists lag behind what was written.
    for _ in 0..100 {
        if schedules.ids("dispatch-", FLOW).await.unwrap() == ["dispatch-thing"] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(
        schedules.ids("dispatch-", FLOW).await.unwrap(),
        ["dispatch-thing"]
    );
    assert_eq!(
        schedules.ids("other-", FLOW).await.unwrap(),
        Vec::<String>::new()
    );
    let others = schedules.ids("dispatch-", "OtherWorkflow").await.unwrap();
    assert_eq!(others, Vec::<String>::new());
    let queue = schedules.task_queue("dispatch-thing").await.unwrap();
    assert_eq!(queue.as_deref(), Some(QUEUE));
    assert_eq!(schedules.task_queue("dispatch-gone").await.unwrap(), None);
    schedules.remove("dispatch-thing").await.unwrap();
    schedules.remove("dispatch-thing").await.unwrap();
    service.shutdown().await;
}
