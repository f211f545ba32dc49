//! What the dispatcher's sources say about failures, row by row.

use std::time::Duration;

use tollgate_core::flow::{ExecInput, Flow};
use tollgate_core::id::{BatchId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{Claim, Engine, FlowView, Memo, Queue, Start, Started};
use tollgate_dispatch::Sweeper;

use crate::layers::until_dispatched;
use crate::town::{LONG, QUEUE, ThingFlow, Town, config, item, item_type};

fn claim(batch: &str) -> Claim {
    Claim {
        item_type: item_type(),
        lane: LaneName::new("default"),
        batch: BatchId::new(batch),
        ahead: config().ahead(),
        stale_after: config().stale_after(),
        limit: 10,
        credit_horizon: config().ahead(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispatcher_that_dies_after_claiming_is_made_up_for_once_its_claims_are_stale() {
    let town = Town::new().await;
    town.admit(&["claimed", "started"], "{}").await;
    // It had claimed both and started one when it died.
    let claimed = town.store.claim(claim("BATCH-dead")).await.unwrap();
    assert_eq!(claimed.len(), 2);
    let input = ExecInput {
        item: item("started"),
        run: 1,
        context_json: "{}".to_owned(),
    };
    let start = Start {
        id: item("started").exec_flow(1),
        name: ThingFlow::NAME.to_owned(),
        task_queue: QUEUE.to_owned(),
        input_json: serde_json::to_string(&input).unwrap(),
        delay: Duration::ZERO,
        memo: Memo::new(),
    };
    assert_eq!(
        town.engine.start(vec![start]).await.unwrap(),
        [Started::New]
    );
    let dispatcher = town.dispatcher(town.engine.clone(), 1);
    assert_eq!(
        dispatcher.cycle().await.unwrap().claimed,
        0,
        "not stale yet"
    );
    // The flow that was started ends its item if the claim is not stale by then; else the next run does.
    for id in ["claimed", "started"] {
        until_dispatched(&town, &dispatcher, id).await;
        let run = town.item(id).await.run;
        assert!(matches!(town.ended(id, run).await, FlowView::Done { .. }));
    }
    assert_eq!(town.item("claimed").await.run, 2);
    assert_eq!(town.executed("claimed"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_the_server_refuses_goes_back_to_ready_and_counts() {
    let town = Town::new().await;
    // More than Temporal takes for one payload.
    let huge = format!("{{\"x\":\"{}\"}}", "x".repeat(3 * 1024 * 1024));
    town.admit(&["huge"], &huge).await;
    town.admit(&["small"], "{}").await;
    let dispatcher = town.dispatcher(town.engine.clone(), 1);
    let cycle = dispatcher.cycle().await.unwrap();
    assert_eq!((cycle.started, cycle.failed), (1, 1));
    let view = town.item("huge").await;
    assert_eq!(
        (view.queue_status, view.retry_count),
        (QueueStatus::Ready, 1)
    );
    let why = view.last_error.unwrap();
    assert!(why.to_lowercase().contains("limit"), "{why}");
    assert!(
        matches!(town.ended("small", 1).await, FlowView::Done { .. }),
        "no harm to others"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_that_fails_after_dispatch_is_found_by_the_sweeper_and_runs_again() {
    let town = Town::new().await;
    town.admit(&["bad"], "{}").await;
    let dispatcher = town.dispatcher(town.engine.clone(), 1);
    dispatcher.cycle().await.unwrap();
    let failed = town.ended("bad", 1).await;
    assert!(matches!(failed, FlowView::Failed { .. }), "{failed:?}");
    let sweeper = Sweeper::new(item_type(), town.store.clone(), town.engine.clone());
    let sweeping = async {
        while sweeper.sweep().await.unwrap().restarted == 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(LONG, sweeping).await.unwrap();
    assert_eq!(town.item("bad").await.run, 2);
    until_dispatched(&town, &dispatcher, "bad").await;
    assert!(matches!(town.ended("bad", 2).await, FlowView::Done { .. }));
    assert_eq!(town.executed("bad"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_whose_body_is_missing_is_dead_and_harms_nobody_else() {
    let town = Town::new().await;
    town.admit(&["lost", "whole"], "{}").await;
    town.sql("DELETE FROM item_body WHERE item_id = 'lost'")
        .await;
    let dispatcher = town.dispatcher(town.engine.clone(), 1);
    assert_eq!(dispatcher.cycle().await.unwrap().started, 1);
    assert_eq!(town.item("lost").await.queue_status, QueueStatus::Dead);
    assert!(matches!(
        town.ended("whole", 1).await,
        FlowView::Done { .. }
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_gives_claims_back_and_counts_for_nobody() {
    let town = Town::new().await;
    town.admit(&["a", "b"], "{}").await;
    town.server.crash();
    let dispatcher = town.dispatcher(town.engine.clone(), 1);
    let cycle = dispatcher.cycle().await.unwrap();
    assert!(cycle.unreachable, "{cycle:?}");
    let view = town.item("a").await;
    assert_eq!(
        (view.queue_status, view.retry_count),
        (QueueStatus::Ready, 0)
    );
    town.server.start_again();
    for id in ["a", "b"] {
        until_dispatched(&town, &dispatcher, id).await;
        assert!(matches!(town.ended(id, 2).await, FlowView::Done { .. }));
        assert_eq!(town.executed(id), 1);
    }
}
