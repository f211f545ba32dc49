//! Crashes, takeovers, outages and shutdowns: what is left, and who goes on.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::flow::Flow;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{Engine, FlowEnd, Flows};
use tollgate_engine::{Options, Stop};

use crate::bench::{Bench, PATIENCE, done, engine_on, start_of};
use crate::flows::{Countdown, Parent, Script, Sequence, World, work};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finished_steps_are_not_run_again_after_a_crash() {
    let mut bench = Bench::new().await;
    let works = vec![
        work("a", Script::Succeed),
        work("b", Script::WaitAtGate),
        work("c", Script::Succeed),
    ];
    bench.start::<Sequence>("f", &works).await;
    bench.world.at_the_gate(1).await;
    let next = engine_on(&bench.memory, &bench.world, Options::default()).await;
    bench.engine = next;
    bench.handle = bench.engine.handle();
    bench.world.at_the_gate(1).await;
    bench.world.gate.add_permits(2);
    assert_eq!(bench.end_of("f").await, done(&["a#1", "b#1", "c#1"]));
    let counts = bench.world.counts();
    assert_eq!((counts["a#1"], counts["b#1"], counts["c#1"]), (1, 2, 1));
    assert_eq!(
        bench.memory.state().recorded,
        ["work/a", "work/b", "work/c"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tries_that_failed_before_a_crash_are_counted_after_it() {
    let mut bench = Bench::new().await;
    let works = vec![work("a", Script::FailThenWaitAtGate)];
    bench.start::<Sequence>("f", &works).await;
    bench.world.at_the_gate(1).await;
    let next = engine_on(&bench.memory, &bench.world, Options::default()).await;
    bench.engine = next;
    bench.handle = bench.engine.handle();
    bench.world.at_the_gate(1).await;
    bench.world.gate.add_permits(2);
    assert_eq!(bench.end_of("f").await, done(&["a#2"]));
    let counts = bench.world.counts();
    assert_eq!((counts["a#1"], counts["a#2"]), (1, 2));
    assert_eq!(bench.memory.state().recorded, ["!1 work/a", "work/a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_engine_that_goes_on_is_fenced_and_stops() {
    let bench = Bench::new().await;
    bench
        .start::<Sequence>("f", &vec![work("a", Script::WaitAtGate)])
        .await;
    bench.world.at_the_gate(1).await;
    let other_world = Arc::new(World::new());
    let next = engine_on(&bench.memory, &other_world, Options::default()).await;
    other_world.at_the_gate(1).await;

    bench.world.gate.add_permits(1);
    let stop = tokio::time::timeout(PATIENCE, bench.handle.stopped())
        .await
        .unwrap();
    assert_eq!(stop, Stop::Fenced("epoch 2 rules".to_owned()));
    assert_eq!(
        bench.memory.state().recorded,
        [""; 0],
        "the old result does not count"
    );
    let refused = bench
        .handle
        .start(vec![start_of("g", "countdown", &0, Duration::ZERO)])
        .await;
    assert!(refused.is_err(), "a stopped engine takes nothing on");

    other_world.gate.add_permits(1);
    let end = next
        .handle()
        .view(&FlowId::new("f"), PATIENCE)
        .await
        .unwrap();
    assert_eq!(end, done(&["a#1"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_ended_while_its_parent_was_down_is_not_run_again() {
    let mut bench = Bench::new().await;
    let child = (FlowId::new("c"), vec![work("a", Script::WaitAtGate)]);
    bench.start::<Parent>("p", &(1, vec![child])).await;
    bench.world.at_the_gate(1).await;
    // The parent waits for a child that ends in between, written by another hand.
    let epoch = bench.memory.take_node().await.unwrap();
    let end = FlowEnd::Done("[\"x\",\"y\"]".to_owned());
    bench.memory.due_flows(epoch, 9).await.unwrap();
    bench
        .memory
        .end_flow(epoch, &FlowId::new("c"), end)
        .await
        .unwrap();
    bench.engine = engine_on(&bench.memory, &bench.world, Options::default()).await;
    bench.handle = bench.engine.handle();
    assert_eq!(bench.end_of("p").await, done(&2));
    assert_eq!(bench.world.counts()["a#1"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_survives_an_outage_of_the_store() {
    let bench = Bench::new().await;
    bench
        .start::<Sequence>("f", &vec![work("a", Script::WaitAtGate)])
        .await;
    bench.world.at_the_gate(1).await;
    bench.memory.state().is_away = true;
    bench.world.gate.add_permits(1);
    let start = vec![start_of("g", Countdown::NAME, &0, Duration::ZERO)];
    assert!(
        bench.handle.start(start.clone()).await.is_err(),
        "nothing can be started"
    );
    assert!(
        bench
            .handle
            .view(&FlowId::new("f"), PATIENCE)
            .await
            .is_err()
    );
    bench.memory.a_record_was_refused().await;
    bench.memory.state().is_away = false;
    assert_eq!(bench.end_of("f").await, done(&["a#1"]));
    assert_eq!(bench.world.tries(), ["a#1"]);
    bench.handle.start(start).await.unwrap();
    assert_eq!(bench.end_of("g").await, done(&"tick#1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_lets_a_running_step_be_journaled_and_the_next_start_goes_on() {
    let bench = Bench::new().await;
    let works = vec![work("a", Script::WaitAtGate), work("b", Script::Succeed)];
    bench.start::<Sequence>("f", &works).await;
    bench.world.at_the_gate(1).await;
    let mut shutdown = tokio::spawn(bench.engine.shutdown());
    assert_eq!(bench.handle.stopped().await, Stop::Shutdown);
    let too_early = tokio::time::timeout(Duration::from_millis(20), &mut shutdown).await;
    assert!(too_early.is_err(), "it waits for the step");
    bench.world.gate.add_permits(1);
    shutdown.await.unwrap();
    assert_eq!(bench.memory.journal_of(&FlowId::new("f")), ["work/a"]);
    assert!(bench.handle.start(vec![]).await.is_err());

    let next = engine_on(&bench.memory, &bench.world, Options::default()).await;
    let end = next
        .handle()
        .view(&FlowId::new("f"), PATIENCE)
        .await
        .unwrap();
    assert_eq!(end, done(&["a#1", "b#1"]));
    assert_eq!(bench.world.tries(), ["a#1", "b#1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_abandons_a_step_that_does_not_end() {
    let bench = Bench::with(Options {
        drain: Duration::ZERO,
        ..Options::default()
    })
    .await;
    bench
        .start::<Sequence>("f", &vec![work("a", Script::WaitAtGate)])
        .await;
    bench.world.at_the_gate(1).await;
    tokio::time::timeout(PATIENCE, bench.engine.shutdown())
        .await
        .unwrap();
    assert_eq!(bench.memory.journal_of(&FlowId::new("f")), [""; 0]);
}
