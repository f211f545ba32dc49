//! Children: permits, room and failures.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate_core::flow::Flow;
use tollgate_core::id::FlowId;
use tollgate_core::ports::Engine;
use tollgate_engine::Options;

use crate::bench::{Bench, done, failed, start_of};
use crate::flows::{Parent, Script, work};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_parents_hold_no_permit_and_do_not_lock_their_children_out() {
    let options = Options {
        max_running: 4,
        max_live: 4,
        ..Options::default()
    };
    let bench = Bench::with(options).await;
    let parent = |p: u32| {
        let child = |c: u32| {
            let id = format!("p{p}-c{c}");
            let works = vec![work(&id, Script::Succeed)];
            (FlowId::new(id), works)
        };
        let input = (3, (0..3).map(child).collect::<Vec<_>>());
        start_of(&format!("p{p}"), Parent::NAME, &input, Duration::ZERO)
    };
    bench
        .handle
        .start((0..50).map(parent).collect())
        .await
        .unwrap();
    for p in 0..50 {
        assert_eq!(bench.end_of(&format!("p{p}")).await, done(&3), "parent {p}");
    }
    assert!(bench.world.counts().values().all(|tries| *tries == 1));
    // Four parents fill the room; beyond it come only children, one per permit.
    let most = bench.memory.state().most_live;
    assert!(most <= 4 + 4, "{most} flows were live");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_with_the_only_permit_waits_for_many_children_at_once() {
    let bench = Bench::with(Options {
        max_running: 1,
        max_live: 1,
        ..Options::default()
    })
    .await;
    let child = |c: u32| {
        (
            FlowId::new(format!("c{c}")),
            vec![work(&format!("{c}"), Script::Succeed)],
        )
    };
    let children: Vec<_> = (0..20).map(child).collect();
    bench.start::<Parent>("p", &(7, children)).await;
    assert_eq!(bench.end_of("p").await, done(&20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parent_that_goes_on_counts_as_running_again() {
    let bench = Bench::with(Options {
        max_running: 2,
        ..Options::default()
    })
    .await;
    let parent = |p: u32| {
        let child = |c: u32| {
            let id = format!("p{p}-c{c}");
            (FlowId::new(id.clone()), vec![work(&id, Script::Succeed)])
        };
        // One child after another: a parent is either in its own step or waiting.
        let input = (1, (0..4).map(child).collect::<Vec<_>>());
        start_of(&format!("p{p}"), Parent::NAME, &input, Duration::ZERO)
    };
    bench
        .handle
        .start((0..30).map(parent).collect())
        .await
        .unwrap();
    for p in 0..30 {
        assert_eq!(bench.end_of(&format!("p{p}")).await, done(&4), "parent {p}");
    }
    assert_eq!(bench.world.most_inside.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_child_is_an_error_of_its_parent() {
    let bench = Bench::new().await;
    let child = (FlowId::new("c"), vec![work("a", Script::FailForGood)]);
    bench.start::<Parent>("p", &(1, vec![child])).await;
    assert_eq!(bench.end_of("p").await, failed("never"));
    assert_eq!(bench.end_of("c").await, failed("never"));
    assert_eq!(bench.memory.state().recorded, ["work/a", "child/c"]);
}
