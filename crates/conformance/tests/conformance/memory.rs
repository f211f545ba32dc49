//! The sample flow in memory, the fault sweep over it, and the mistakes the context must catch.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::Duration;

use serde_json::json;
use tollgate_conformance::memory::{Case, Fault, Memory, Plan, Ran, Scene, StepCall, Work, sweep};
use tollgate_conformance::sample::{
    self, Add, FAILED, SampleFlow, SampleIn, SampleOut, SampleTwins, World, child_id, effects,
    outcome,
};
use tollgate_core::flow::{Ctx, End, Flow, FlowError, Registrar};
use tollgate_core::id::FlowId;

const ROUNDS: i64 = 2;

fn id() -> FlowId {
    FlowId::new("sample-1")
}

fn scene() -> Scene<SampleFlow, Arc<World>> {
    let world = Arc::new(World::default());
    let mut memory = Memory::new(Work::Inline);
    sample::register(&mut memory, &world);
    Scene {
        memory,
        id: id(),
        input: SampleIn::rounds(ROUNDS),
        world,
    }
}

#[test]
fn the_sample_flow_does_everything_once() {
    let scene = scene();
    let ran = scene.memory.run::<SampleFlow>(&id(), &scene.input, None);
    let ran = ran.unwrap();
    assert_eq!(ran.result, Ok(outcome(ROUNDS)));
    assert_eq!(ran.progress[&id()], json!({"round": 2, "stage": "started"}));
    let (parent, child) = effects(ROUNDS);
    assert_eq!(scene.world.effects(&id()), parent);
    assert_eq!(scene.world.effects(&child_id(&id())), child);
    let mut calls = scene.world.calls(&id());
    calls.retain(|name, _| !name.starts_with("refuse"));
    assert!(calls.values().all(|calls| *calls == 1), "{calls:?}");
}

#[test]
fn a_child_that_runs_is_joined() {
    let Scene { memory, world, .. } = scene();
    let ran = memory.run::<SampleTwins>(&id(), &SampleIn::rounds(1), None);
    assert_eq!(ran.unwrap().result, Ok(vec![outcome(1), outcome(1)]));
    assert_eq!(world.calls(&child_id(&id()))["1/first"], 1);
}

#[test]
fn a_failing_flow_ends_with_its_error() {
    let scene = scene();
    let ran = scene
        .memory
        .run::<SampleFlow>(&id(), &SampleIn::failing(), None);
    assert_eq!(ran.unwrap().result, Err(FlowError(FAILED.into())));
}

#[test]
fn the_sample_flow_survives_every_fault_at_every_step() {
    let cases = sweep(scene, check_sample);
    // Thirteen steps in each round, a wait in the first, two rounds of the child; and the clean run.
    assert_eq!(cases, 1 + Fault::ALL.len() * (2 * 13 + 1 + 2));
}

/// Nothing happens twice, whatever happens; and all of it happens, unless a step failed for good.
/// A refused step fails anyway: the flow goes on, with the injected error in place of its own.
fn check_sample(case: &Case, world: &Arc<World>, ran: &Ran<SampleOut>) {
    let (parent, child) = effects(ROUNDS);
    let happened = (world.effects(&id()), world.effects(&child_id(&id())));
    let refused = |hit: &StepCall| hit.key.starts_with("refuse");
    let fails = case.fault() == Some(Fault::FailForGood);
    if case.hit.as_ref().is_some_and(refused) {
        let total = ran.result.as_ref().map(|out| out.total);
        assert_eq!(total, Ok(outcome(ROUNDS).total));
        assert_eq!(happened, (parent, child));
    } else if fails {
        assert_eq!(ran.result, Err(FlowError(Fault::INJECTED.into())));
        for (name, amount) in happened.0 {
            assert_eq!(parent.get(&name), Some(&amount));
        }
    } else {
        assert_eq!(ran.result, Ok(outcome(ROUNDS)));
        assert_eq!(happened, (parent, child));
    }
}

#[test]
fn a_lost_result_and_a_crash_before_the_record_run_the_work_again() {
    for (fault, calls) in [
        (Fault::FailOnce, 1),
        (Fault::LoseResult, 2),
        (Fault::CrashBeforeRecord, 2),
        (Fault::CrashAfterRecord, 1),
    ] {
        let scene = scene();
        let plan = Plan { at: 2, fault };
        let ran = scene
            .memory
            .run::<SampleFlow>(&id(), &scene.input, Some(plan));
        assert_eq!(ran.unwrap().result, Ok(outcome(ROUNDS)));
        assert_eq!(scene.world.calls(&id())["1/second"], calls, "{fault:?}");
    }
}

#[test]
fn work_that_waits_needs_a_blocking_runtime() {
    let Scene {
        memory,
        input,
        world,
        ..
    } = scene();
    let _held = world.hold();
    let broken = memory.run::<SampleFlow>(&id(), &input, None).unwrap_err();
    let expected = "sampleWait awaited something that is not the port's";
    assert!(broken.to_string().contains(expected), "{broken}");

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut memory = Memory::new(Work::Blocking(runtime.handle().clone()));
    sample::register(&mut memory, &world);
    let others_world = world.clone();
    runtime.spawn(async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        others_world.release();
    });
    let ran = memory.run::<SampleFlow>(&FlowId::new("blocking"), &input, None);
    assert_eq!(ran.unwrap().result, Ok(outcome(ROUNDS)));
}

/// A flow with a mistake in it, named by its input.
struct Mistaken;

static REPLAYS: AtomicI64 = AtomicI64::new(0);

impl Flow for Mistaken {
    const NAME: &'static str = "mistaken";
    type In = String;
    type Out = i64;

    async fn run<C: Ctx>(ctx: C, mistake: String) -> Result<End<Self>, FlowError> {
        let first = ctx.step(Add::new(1, "first", 1)).await?;
        let second = match mistake.as_str() {
            "foreign" => poll_fn(|_| Poll::<i64>::Pending).await,
            "twice" => ctx.step(Add::new(1, "first", 2)).await?,
            "replay" => {
                let amount = REPLAYS.fetch_add(1, Ordering::Relaxed);
                ctx.step(Add::new(1, "second", amount)).await?
            }
            "stranger" => {
                ctx.child::<SampleFlow>(id(), SampleIn::rounds(1))
                    .await?
                    .total
            }
            "itself" => {
                let mistake = String::new();
                ctx.child::<Self>(ctx.flow_id().clone(), mistake).await?
            }
            other => panic!("no mistake {other}"),
        };
        Ok(End::Done(first + second))
    }
}

#[test]
fn mistakes_that_only_an_engine_would_show_are_caught() {
    for (mistake, expected) in [
        ("foreign", "awaited something that is not the port's"),
        ("twice", "used the step key \"first\" twice"),
        ("replay", "replayed step \"second\" as"),
        ("stranger", "flow sample is not registered"),
        ("itself", "does not come to an end"),
    ] {
        let mut memory = Memory::new(Work::Inline);
        memory.flow::<Mistaken>();
        memory.step::<Add>(&Arc::default());
        let plan = Plan {
            at: 2,
            fault: Fault::CrashAfterRecord,
        };
        let ran = memory.run::<Mistaken>(&FlowId::new("m"), &mistake.into(), Some(plan));
        let broken = ran.unwrap_err().to_string();
        assert!(broken.contains(expected), "{mistake}: {broken}");
    }
}
