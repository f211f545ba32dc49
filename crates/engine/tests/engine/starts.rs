//! Starting, loading and looking at flows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate_core::flow::{Flow, Registrar};
use tollgate_core::id::FlowId;
use tollgate_core::ports::{Engine, FlowView, Flows, NewFlow, Started};
use tollgate_engine::{Builder, EmbeddedEngine, Options, StartError};

use crate::bench::{Bench, PATIENCE, done, engine_on, running, start_of};
use crate::flows;
use crate::flows::{Countdown, Script, Sequence, Work, World, work};
use crate::memory::Memory;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn continuing_as_new_begins_with_an_empty_journal() {
    let bench = Bench::new().await;
    bench.start::<Countdown>("f", &3).await;
    assert_eq!(bench.end_of("f").await, done(&"tick#1"));
    assert_eq!(bench.world.tries(), ["tick#1"; 4]);
    assert_eq!(bench.memory.state().recorded, ["work/tick"; 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_next_run_that_is_handed_out_before_the_old_one_has_left_is_not_lost() {
    let bench = Bench::new().await;
    bench.memory.state().answers_late = true;
    bench.start::<Countdown>("f", &3).await;
    assert_eq!(bench.end_of("f").await, done(&"tick#1"));
    assert_eq!(bench.world.tries(), ["tick#1"; 4]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_delay_is_honoured() {
    let bench = Bench::new().await;
    let hour = Duration::from_hours(1);
    bench
        .start_in::<Sequence>("later", &vec![work("later", Script::Succeed)], hour)
        .await;
    bench.start::<Countdown>("now", &0).await;
    assert_eq!(bench.end_of("now").await, done(&"tick#1"));
    assert_eq!(bench.state_of("later").await, running());
    bench.memory.move_time(hour);
    bench.start::<Countdown>("wake", &0).await;
    assert_eq!(bench.end_of("later").await, done(&["later#1"]));
    assert_eq!(bench.world.tries()[0], "tick#1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loader_wakes_by_itself_when_a_delay_is_over() {
    // A poll would come too late for anybody's patience.
    let bench = Bench::with(Options {
        longest_poll: PATIENCE * 2,
        ..Options::default()
    })
    .await;
    let soon = Duration::from_millis(5);
    // The second finds the loader asleep for certain.
    for id in ["first", "second"] {
        bench.start_in::<Countdown>(id, &0, soon).await;
        assert_eq!(bench.end_of(id).await, done(&"tick#1"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starting_twice_is_already_also_after_the_end() {
    let bench = Bench::new().await;
    assert_eq!(bench.start::<Countdown>("f", &0).await, Started::New);
    assert_eq!(bench.start::<Countdown>("f", &0).await, Started::Already);
    bench.end_of("f").await;
    assert_eq!(bench.start::<Countdown>("f", &0).await, Started::Already);
    assert_eq!(bench.world.tries(), ["tick#1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_that_nobody_registered_is_refused_and_its_neighbours_start() {
    let bench = Bench::new().await;
    let flows = vec![
        start_of("x", "stranger", &0, Duration::ZERO),
        start_of("f", Countdown::NAME, &0, Duration::ZERO),
    ];
    let why = "no flow named \"stranger\"; register its domain with this engine";
    let started = bench.handle.start(flows).await.unwrap();
    assert_eq!(started, [Started::Failed(why.to_owned()), Started::New]);
    assert_eq!(bench.state_of("x").await, FlowView::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_flow_or_an_unreadable_input_in_the_store_ends_as_failed() {
    let memory = Arc::new(Memory::new());
    let row = |id: &str, name: &str| NewFlow {
        id: FlowId::new(id),
        name: name.to_owned(),
        input_json: "\"no number\"".to_owned(),
        delay: Duration::ZERO,
        is_child: false,
    };
    let rows = vec![row("x", "gone"), row("y", Countdown::NAME)];
    memory.start_flows(rows).await.unwrap();
    let engine = engine_on(&memory, &Arc::new(World::new()), Options::default()).await;
    let mut errors = Vec::new();
    for id in ["x", "y"] {
        match engine
            .handle()
            .view(&FlowId::new(id), PATIENCE)
            .await
            .unwrap()
        {
            FlowView::Failed { error } => errors.push(error),
            other => panic!("{id}: {other:?}"),
        }
    }
    assert!(errors[0].contains("no flow named \"gone\""), "{errors:?}");
    assert!(
        errors[1].contains("\"countdown\" cannot read its input"),
        "{errors:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_more_flows_run_or_are_loaded_than_allowed() {
    let bench = Bench::with(Options {
        max_running: 8,
        max_batch: 5,
        ..Options::default()
    })
    .await;
    let flow = |n: u32| {
        let works = vec![work(&n.to_string(), Script::WaitAtGate)];
        start_of(&n.to_string(), Sequence::NAME, &works, Duration::ZERO)
    };
    bench
        .handle
        .start((0..200).map(flow).collect())
        .await
        .unwrap();
    bench.world.at_the_gate(8).await;
    bench.world.gate.add_permits(200);
    for n in 0..200 {
        assert_eq!(
            bench.end_of(&n.to_string()).await,
            done(&[format!("{n}#1")])
        );
    }
    assert_eq!(bench.world.most_inside.load(Ordering::SeqCst), 8);
    assert_eq!(bench.memory.state().most_live, 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_is_coalesced_and_the_latest_is_written_before_the_end() {
    let options = Options {
        progress_every: PATIENCE,
        ..Options::default()
    };
    let bench = Bench::with(options).await;
    let works = ["a", "b", "c"]
        .map(|key| work(key, Script::Succeed))
        .to_vec();
    bench.start::<Sequence>("f", &works).await;
    bench.end_of("f").await;
    assert_eq!(bench.memory.state().progress_writes, ["2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_shows_progress_and_gives_up_waiting_in_time() {
    let options = Options {
        progress_every: Duration::from_millis(1),
        ..Options::default()
    };
    let bench = Bench::with(options).await;
    bench
        .start::<Sequence>("f", &vec![work("a", Script::WaitAtGate)])
        .await;
    bench.world.at_the_gate(1).await;
    let shown = FlowView::Running {
        progress_json: Some("0".to_owned()),
    };
    let id = FlowId::new("f");
    let wait = Duration::from_millis(5);
    while bench.handle.view(&id, wait).await.unwrap() != shown {}
    bench.world.gate.add_permits(1);
    assert_eq!(bench.end_of("f").await, done(&["a#1"]));
    assert_eq!(bench.end_of("nobody").await, FlowView::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_with_a_name_given_twice_does_not_start() {
    let memory = Arc::new(Memory::new());
    let world = Arc::new(World::new());
    let mut builder = Builder::new();
    flows::register(&mut builder, &world);
    builder.flow::<Countdown>().step::<Work>(&world);
    let flows = Arc::clone(&memory) as Arc<dyn Flows>;
    let refused = EmbeddedEngine::start(flows, builder, Options::default()).await;
    let Err(StartError::Invalid(why)) = refused else {
        panic!("it started");
    };
    assert_eq!(
        why,
        "two flows are named \"countdown\"; two steps are named \"work\""
    );
    // The running node was not fenced by the failed start.
    assert_eq!(memory.take_node().await.unwrap().0, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_cannot_be_written_stops_the_start_with_a_sentence() {
    let memory = Arc::new(Memory::new());
    memory.state().is_away = true;
    let mut builder = Builder::new();
    flows::register(&mut builder, &Arc::new(World::new()));
    let flows = Arc::clone(&memory) as Arc<dyn Flows>;
    let refused = EmbeddedEngine::start(flows, builder, Options::default()).await;
    let Err(why @ StartError::Store(_)) = refused else {
        panic!("it started");
    };
    assert!(
        why.to_string()
            .starts_with("the engine cannot take over its flows: ")
    );
}
