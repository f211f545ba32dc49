//! The sweeper: nothing dispatched is left behind.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::item::QueueStatus;
use tollgate_core::ports::FlowView;
use tollgate_dispatch::{Dispatcher, Sweep, Sweeper};

use crate::town::{Mood, Scripted, Town, item_type};

/// Two items, dispatched longer ago than the stale threshold.
async fn dispatched() -> (Town, Arc<Scripted>, Sweeper) {
    let (town, engine) = (Town::new(100).await, Scripted::new(Mood::Willing));
    town.admit("a", "default", 2).await;
    Dispatcher::new(item_type(), town.store.clone(), engine.clone(), 1)
        .cycle()
        .await
        .unwrap();
    town.time.advance(Duration::from_secs(121));
    let sweeper = Sweeper::new(item_type(), town.store.clone(), engine.clone());
    (town, engine, sweeper)
}

#[tokio::test]
async fn a_running_flow_is_left_alone() {
    let (town, engine, sweeper) = dispatched().await;
    assert_eq!(
        sweeper.sweep().await.unwrap(),
        Sweep {
            looked_at: 2,
            ..Sweep::default()
        }
    );
    assert_eq!(engine.started().len(), 2);
    assert_eq!(town.item("a0").await.run, 1);
}

#[tokio::test]
async fn an_item_whose_flow_was_lost_is_due_again_as_its_next_run() {
    let (town, engine, sweeper) = dispatched().await;
    engine.flows.lock().unwrap().clear();
    assert_eq!(sweeper.sweep().await.unwrap().lost, 2);
    let view = town.item("a0").await;
    assert_eq!(
        (view.queue_status, view.run, view.retry_count),
        (QueueStatus::Ready, 2, 0),
        "nothing has failed"
    );
    let dispatcher = Dispatcher::new(item_type(), town.store.clone(), engine.clone(), 2);
    dispatcher.cycle().await.unwrap();
    assert_eq!(
        engine.started()[2..],
        ["exec-thing-a0~2", "exec-thing-a1~2"]
    );
}

#[tokio::test]
async fn why_a_flow_of_several_could_not_execute_an_item_is_the_items_error() {
    let (town, engine, sweeper) = dispatched().await;
    let end = r#"{"executed":1,"movedOn":0,"failed":{"a0":"the context cannot be read"}}"#;
    for flow in ["exec-thing-a0", "exec-thing-a1"] {
        engine.end(
            flow,
            FlowView::Done {
                result_json: end.into(),
            },
        );
    }
    assert_eq!(sweeper.sweep().await.unwrap().restarted, 2);
    for (id, told) in [
        ("a0", "it could not be executed: the context cannot be read"),
        ("a1", "its flow ended without ending it"),
    ] {
        assert_eq!(town.item(id).await.last_error.as_deref(), Some(told));
    }
}

#[tokio::test]
async fn a_flow_that_ended_without_ending_its_item_runs_again_and_is_dead_at_last() {
    let (town, engine, sweeper) = dispatched().await;
    let dispatcher = Dispatcher::new(item_type(), town.store.clone(), engine.clone(), 2);
    engine.end(
        "exec-thing-a0",
        FlowView::Failed {
            error: "a bug".into(),
        },
    );
    assert_eq!(sweeper.sweep().await.unwrap().restarted, 1);
    let view = town.item("a0").await;
    assert_eq!(
        (view.queue_status, view.run, view.retry_count),
        (QueueStatus::Ready, 2, 1)
    );
    assert!(view.last_error.unwrap().contains("a bug"));
    for run in 2..=5 {
        // Past the pause, and then past the stale threshold.
        town.time.advance(Duration::from_mins(15));
        dispatcher.cycle().await.unwrap();
        engine.end(
            &format!("exec-thing-a0~{run}"),
            FlowView::Failed {
                error: "a bug".into(),
            },
        );
        town.time.advance(Duration::from_secs(121));
        sweeper.sweep().await.unwrap();
    }
    assert_eq!(town.item("a0").await.queue_status, QueueStatus::Dead);
}

#[tokio::test]
async fn one_sweep_holds_everything_that_is_late_however_many_share_the_deadline() {
    let town = Town::new(1).await;
    let deadline = town.store.now().await.unwrap() + Duration::from_mins(1);
    let ids = || (0..450).map(|n| format!("late{n}"));
    for id in ids() {
        town.admit_until(&id, "default", deadline).await;
    }
    town.time.advance(Duration::from_mins(2));
    let sweeper = Sweeper::new(
        item_type(),
        town.store.clone(),
        Scripted::new(Mood::Willing),
    );
    let held = |held| Sweep {
        held,
        ..Sweep::default()
    };
    assert_eq!(sweeper.sweep().await.unwrap(), held(450));
    assert_eq!(sweeper.sweep().await.unwrap(), held(0));
    for id in ids() {
        assert_eq!(town.item(&id).await.queue_status, QueueStatus::Held);
    }
}
