//! Steps: order, retries, timeouts, windows and panics.

use std::sync::atomic::Ordering;

use tollgate_core::ports::Started;

use crate::bench::{Bench, done, failed};
use crate::flows::{Countdown, Panics, Parallel, Script, Sequence, Work, work};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_three_step_flow_runs_to_its_end() {
    let bench = Bench::new().await;
    let works = ["a", "b", "c"]
        .map(|key| work(key, Script::Succeed))
        .to_vec();
    assert_eq!(bench.start::<Sequence>("f", &works).await, Started::New);
    assert_eq!(bench.end_of("f").await, done(&["a#1", "b#1", "c#1"]));
    assert_eq!(
        bench.memory.state().recorded,
        ["work/a", "work/b", "work/c"]
    );
    bench.engine.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_fails_twice_is_tried_by_its_policy() {
    let bench = Bench::new().await;
    bench
        .start::<Sequence>("f", &vec![work("a", Script::FailUntil(3))])
        .await;
    assert_eq!(bench.end_of("f").await, done(&["a#3"]));
    assert_eq!(bench.world.tries(), ["a#1", "a#2", "a#3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_ends_at_its_last_try_or_at_its_final_error_and_the_error_is_recorded() {
    let bench = Bench::new().await;
    bench
        .start::<Sequence>("tries", &vec![work("a", Script::FailUntil(9))])
        .await;
    assert_eq!(bench.end_of("tries").await, failed("not yet"));
    bench
        .start::<Sequence>("final", &vec![work("b", Script::FailForGood)])
        .await;
    assert_eq!(bench.end_of("final").await, failed("never"));
    assert_eq!(bench.world.tries(), ["a#1", "a#2", "a#3", "b#1"]);
    assert_eq!(
        bench.memory.state().recorded,
        ["!1 work/a", "!2 work/a", "work/a", "work/b"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_that_takes_too_long_is_tried_again() {
    let bench = Bench::new().await;
    bench
        .start::<Sequence>("f", &vec![work("a", Script::HangForever)])
        .await;
    assert_eq!(
        bench.end_of("f").await,
        failed("step \"work\" timed out after 5ms")
    );
    assert_eq!(bench.world.tries(), ["a#1", "a#2", "a#3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_steps_keep_to_the_window_and_to_the_order() {
    let bench = Bench::new().await;
    let works: Vec<Work> = (0..20)
        .map(|n| work(&n.to_string(), Script::WaitAtGate))
        .collect();
    bench.start::<Parallel>("f", &(4, works)).await;
    bench.world.at_the_gate(4).await;
    bench.world.gate.add_permits(20);
    let expected: Vec<String> = (0..20).map(|n| format!("{n}#1")).collect();
    assert_eq!(bench.end_of("f").await, done(&expected));
    assert_eq!(bench.world.most_inside.load(Ordering::SeqCst), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_used_twice_in_one_run_is_worked_on_once() {
    let bench = Bench::new().await;
    let twice = vec![
        work("same", Script::WaitAtGate),
        work("same", Script::WaitAtGate),
    ];
    bench.start::<Parallel>("f", &(2, twice)).await;
    bench.world.at_the_gate(1).await;
    bench.world.gate.add_permits(1);
    assert_eq!(bench.end_of("f").await, done(&["same#1", "same#1"]));
    let twice = vec![
        work("again", Script::Succeed),
        work("again", Script::Succeed),
    ];
    bench.start::<Sequence>("g", &twice).await;
    assert_eq!(bench.end_of("g").await, done(&["again#1", "again#1"]));
    assert_eq!(bench.world.tries(), ["same#1", "again#1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panics_of_steps_and_flows_are_contained() {
    let bench = Bench::new().await;
    bench
        .start::<Sequence>("step", &vec![work("a", Script::Panic)])
        .await;
    assert_eq!(
        bench.end_of("step").await,
        failed("step \"work\" panicked: as scripted")
    );
    bench.start::<Panics>("flow", &()).await;
    assert_eq!(
        bench.end_of("flow").await,
        failed("the flow panicked: the flow's own bug")
    );
    bench.start::<Countdown>("next", &0).await;
    assert_eq!(bench.end_of("next").await, done(&"tick#1"));
    assert_eq!(bench.world.tries(), ["a#1", "before#1", "tick#1"]);
}
