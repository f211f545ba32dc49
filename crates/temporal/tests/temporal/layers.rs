//! Four layers keep an item from being executed twice. Each holds alone: the others are taken away.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_conformance::temporal::TemporalServer;
use tollgate_core::flow::{Call, Ctx, End, Flow, FlowError, Policy, Registrar, Step, StepError};
use tollgate_core::id::{BatchId, FlowId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{
    Claim, Engine, FlowView, Queue, Start, StartRecord, Started, Unreachable,
};
use tollgate_core::retry;
use tollgate_temporal::{Recurring, Registered, Size, TemporalService};

use crate::at;
use crate::town::{LONG, QUEUE, Town, config, item, item_type};

/// Longer than the schedule's interval.
#[derive(Debug, Serialize, Deserialize)]
struct Slow;

#[derive(Default)]
struct Watched {
    now: AtomicU32,
    most: AtomicU32,
    runs: AtomicU32,
}

#[derive(Debug)]
struct SlowFlow;

impl Flow for SlowFlow {
    const NAME: &'static str = "SlowFlow";
    type In = ();
    type Out = ();

    async fn run<C: Ctx>(ctx: C, (): ()) -> Result<End<Self>, FlowError> {
        ctx.step(Slow).await?;
        Ok(End::Done(()))
    }
}

impl Step for Slow {
    const NAME: &'static str = "slow";
    type Out = ();
    type World = Watched;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        Policy {
            timeout: LONG,
            retry: retry::Policy::ONCE,
        }
    }
    async fn run(&self, world: &Watched, _: &Call) -> Result<(), StepError> {
        let now = world.now.fetch_add(1, Ordering::SeqCst) + 1;
        world.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(2500)).await;
        world.now.fetch_sub(1, Ordering::SeqCst);
        world.runs.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn layer_1_a_schedule_that_skips_never_runs_two_dispatchers_at_once() {
    let server = TemporalServer::start();
    let mut service = TemporalService::connect(at(&server, "layer-1"))
        .await
        .unwrap();
    let world = Arc::new(Watched::default());
    let mut registered = Registered::new(QUEUE, Size::keeping(10));
    registered.flow::<SlowFlow>().step::<Slow>(&world);
    service.run(vec![registered]);
    let recurring = Recurring {
        id: "dispatch-slow".to_owned(),
        flow: SlowFlow::NAME.to_owned(),
        task_queue: QUEUE.to_owned(),
        input: json!(null),
        every: Duration::from_secs(1),
    };
    assert!(service.schedules().keep(&recurring).await.unwrap());
    let several = async {
        while world.runs.load(Ordering::SeqCst) < 3 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(LONG, several).await.unwrap();
    assert_eq!(world.most.load(Ordering::SeqCst), 1);
    service.shutdown().await;
}

/// An engine that would start everything twice.
#[derive(Default)]
struct Careless(Mutex<Vec<FlowId>>);

#[async_trait]
impl Engine for Careless {
    async fn start(&self, flows: Vec<Start>) -> Result<Vec<Started>, Unreachable> {
        let mut started = self.0.lock().unwrap();
        started.extend(flows.iter().map(|flow| flow.id.clone()));
        Ok(flows.iter().map(|_| Started::New).collect())
    }
    async fn view(&self, _: &FlowId, _: Duration) -> Result<FlowView, Unreachable> {
        Ok(FlowView::NotFound)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn layer_2_dispatchers_that_claim_at_the_same_time_share_and_never_overlap() {
    let town = Town::new().await;
    let ids: Vec<String> = (0..200).map(|n| format!("t{n}")).collect();
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    town.admit(&names, "{}").await;
    let careless = Arc::new(Careless::default());
    let cycles = (0..8).map(|seed| {
        let dispatcher = town.dispatcher(careless.clone(), seed);
        tokio::spawn(async move { dispatcher.cycle().await.unwrap() })
    });
    for cycle in futures::future::join_all(cycles).await {
        cycle.unwrap();
    }
    let started = careless.0.lock().unwrap().clone();
    let different: BTreeSet<_> = started.iter().map(FlowId::as_str).collect();
    assert_eq!((started.len(), different.len()), (200, 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn layer_3_an_item_that_is_dispatched_again_finds_its_flow_by_its_id() {
    let town = Town::new().await;
    town.admit(&["a"], "{}").await;
    let dispatcher = town.dispatcher(town.engine.clone(), 1);
    assert_eq!(dispatcher.cycle().await.unwrap().started, 1);
    assert!(matches!(town.ended("a", 1).await, FlowView::Done { .. }));
    // As if the queue had forgotten all about it.
    town.sql("UPDATE item_queue SET queue_status = 'READY', finished_at = NULL")
        .await;
    assert_eq!(
        dispatcher.cycle().await.unwrap().started,
        1,
        "counts as success"
    );
    assert_eq!(town.item("a").await.queue_status, QueueStatus::Dispatched);
    assert_eq!(town.executed("a"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn layer_4_a_slow_dispatcher_does_not_overwrite_what_has_moved_on() {
    let town = Town::new().await;
    town.admit(&["a"], "{}").await;
    let batch = BatchId::new("BATCH-slow");
    let claim = Claim {
        item_type: item_type(),
        lane: LaneName::new("default"),
        batch: batch.clone(),
        ahead: config().ahead(),
        stale_after: config().stale_after(),
        limit: 10,
        credit_horizon: config().ahead(),
    };
    let claimed = town.store.claim(claim).await.unwrap().remove(0);
    let dispatcher = town.dispatcher(town.engine.clone(), 1);
    until_dispatched(&town, &dispatcher, "a").await;
    // Now the slow one comes back and says that its start has failed.
    let failed = StartRecord {
        id: claimed.id,
        fence: claimed.fence,
        flow: item("a").exec_flow(1),
        started: Started::Failed("slow".into()),
    };
    let kind = item_type();
    let moved = town.store.record_starts(&kind, &batch, vec![failed], 5);
    assert_eq!(moved.await.unwrap(), 0, "no row is touched");
    assert_eq!(town.item("a").await.queue_status, QueueStatus::Dispatched);
    assert!(matches!(town.ended("a", 2).await, FlowView::Done { .. }));
    assert_eq!(town.executed("a"), 1);
}

/// Cycles until a claim that nobody works on has gone stale and was taken again.
pub(crate) async fn until_dispatched(
    town: &Town,
    dispatcher: &tollgate_dispatch::Dispatcher,
    id: &str,
) {
    let cycling = async {
        while town.item(id).await.queue_status != QueueStatus::Dispatched {
            dispatcher.cycle().await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LONG, cycling).await.unwrap();
}
