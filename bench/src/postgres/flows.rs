//! W2 as the program does it: the dispatcher claims, starts flows of one or of several items and records them;
//! the embedded engine loads the flows, runs their steps, and ends them. Only the work is empty: of an item's three
//! steps the first two do nothing and the last finishes it. A flow of one item journals each step; in a flow of
//! several all items go through them inside its one step.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tollgate_core::flow::{
    Call, Ctx, End, ExecInput, Flow, FlowError, Policy, Registrar, Step, StepError,
};
use tollgate_core::id::Item;
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::ports::{Author, Queue, SettingKind, Settings, StatusMove, Store};
use tollgate_core::retry;
use tollgate_dispatch::{Dispatcher, Executes, Inline, register_batch};
use tollgate_domains::payments::item_type;
use tollgate_engine::{Builder, EmbeddedEngine, Options};
use tollgate_store::postgres::PostgresStore;

use super::target;
use crate::sample::Sample;
use crate::stopwatch::Lap;

/// Between two looks whether all is done.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) async fn measure(url: &str, count: u32, items_per_flow: u32) -> Result<Sample> {
    let store = target::open(url).await?;
    configure(&store, items_per_flow).await?;
    let looker = target::connect(url).await?;
    let mut builder = Builder::new();
    let road = Arc::new(Road(Arc::clone(&store)));
    builder.flow::<NoOp>();
    builder.step::<Nothing>(&road).step::<Finish>(&road);
    register_batch(&mut builder, &road);
    let engine =
        EmbeddedEngine::start(Arc::clone(&store) as _, builder, Options::default()).await?;
    let handle = Arc::new(engine.handle());
    let dispatcher = Dispatcher::new(item_type(), Arc::clone(&store) as _, handle, 1);
    let (stop, stopped) = watch::channel(false);

    let lap = Lap::begin()?;
    let dispatching = tokio::spawn(Arc::new(dispatcher).run(stopped));
    // The items from their end, which is due last and open until nearly all are done: from their beginning each look
    // would go through all that have ended, and take the time that it measures.
    let left = "SELECT EXISTS (SELECT FROM (SELECT 1 FROM item_queue WHERE lane = 'bench' AND item_type = 'PAYMENT'
                        AND queue_part = 'O' ORDER BY scheduled_exec_time DESC LIMIT 1) last)
                    OR EXISTS (SELECT 1 FROM flow WHERE state = 'PENDING')
                    OR EXISTS (SELECT 1 FROM flow WHERE state = 'LIVE')";
    while looker.query_one(left, &[]).await?.get(0) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let sample = lap.sample(count)?;

    stop.send(true)?;
    dispatching.await?;
    engine.shutdown().await;
    let finished = "SELECT count(*) FROM item_queue WHERE finished_at IS NOT NULL";
    target::check_rows(url, finished, count).await?;
    let not_done = "SELECT count(*) FROM flow WHERE state <> 'DONE'";
    target::check_rows(url, not_done, 0).await?;
    Ok(sample)
}

async fn configure(store: &PostgresStore, items_per_flow: u32) -> Result<()> {
    let config = ItemTypeConfig {
        items_per_flow,
        exec_workflow_type: NoOp::NAME.to_owned(),
        exec_batch_workflow_type: Road::BATCH_FLOW.to_owned(),
        exec_task_queue: "bench".to_owned(),
        ..ItemTypeConfig::default()
    };
    let (name, author) = (item_type(), Author::new("bench", "a type to measure"));
    let body = serde_json::to_string(&config)?;
    store
        .put_setting(SettingKind::ItemType, name.as_str(), body, author)
        .await?;
    Ok(())
}

/// The domain of items that need nothing.
struct Road(Arc<PostgresStore>);

impl Executes for Road {
    const BATCH_FLOW: &'static str = "no-op-batch";
    const BATCH_STEP: &'static str = "no-ops";

    fn store(&self) -> &dyn Store {
        &*self.0
    }
    async fn settled(&self) {}
    async fn fenced(&self) -> String {
        std::future::pending().await
    }
    async fn execute(ctx: Inline<Self>, input: ExecInput) -> Result<(), FlowError> {
        NoOp::run(ctx, input).await.map(drop)
    }
}

struct NoOp;

impl Flow for NoOp {
    const NAME: &'static str = "no-op";
    type In = ExecInput;
    type Out = ();

    async fn run<C: Ctx>(ctx: C, input: ExecInput) -> Result<End<Self>, FlowError> {
        ctx.step(Nothing { number: 1 }).await?;
        ctx.step(Nothing { number: 2 }).await?;
        let (item, run) = (input.item, input.run);
        ctx.step(Finish { item, run }).await?;
        Ok(End::Done(()))
    }
}

const ONCE: Policy = Policy {
    timeout: Duration::from_mins(1),
    retry: retry::Policy::ONCE,
};

#[derive(Debug, Serialize, Deserialize)]
struct Nothing {
    number: u32,
}

impl Step for Nothing {
    const NAME: &'static str = "nothing";
    type Out = u32;
    type World = Road;

    fn key(&self) -> String {
        self.number.to_string()
    }

    fn policy(&self) -> Policy {
        ONCE
    }

    async fn run(&self, _road: &Road, _call: &Call) -> Result<u32, StepError> {
        Ok(self.number)
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Finish {
    item: Item,
    run: u32,
}

impl Step for Finish {
    const NAME: &'static str = "finish";
    type Out = bool;
    type World = Road;

    fn key(&self) -> String {
        String::new()
    }

    fn policy(&self) -> Policy {
        ONCE
    }

    async fn run(&self, road: &Road, _call: &Call) -> Result<bool, StepError> {
        let status = StatusMove::new(&["SCHEDULED"], "PROCESSING");
        let finished = road.0.finish(&self.item, self.run, status).await;
        finished.map_err(|error| StepError::last(error.to_string()))
    }
}
