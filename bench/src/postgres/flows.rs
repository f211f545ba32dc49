//! W2 as the program does it: the dispatcher claims, starts a flow for each item and records it;
//! the embedded engine loads the flows, runs three steps, journals each, and ends them. Only the
//! steps are empty: the first two do nothing, the last finishes the item.

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
use tollgate_core::ports::{Author, Queue, SettingKind, Settings, StatusMove};
use tollgate_core::retry;
use tollgate_dispatch::Dispatcher;
use tollgate_domains::payments::item_type;
use tollgate_engine::{Builder, EmbeddedEngine, Options};
use tollgate_store::postgres::PostgresStore;

use super::target;
use crate::sample::Sample;
use crate::stopwatch::Lap;

/// Between two looks whether all is done.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) async fn measure(url: &str, count: u32) -> Result<Sample> {
    let store = target::open(url).await?;
    configure(&store).await?;
    let looker = target::connect(url).await?;
    let mut builder = Builder::new();
    builder.flow::<NoOp>().step::<Nothing>(&Arc::new(()));
    builder.step::<Finish>(&store);
    let engine =
        EmbeddedEngine::start(Arc::clone(&store) as _, builder, Options::default()).await?;
    let handle = Arc::new(engine.handle());
    let dispatcher = Dispatcher::new(item_type(), Arc::clone(&store) as _, handle, 1);
    let (stop, stopped) = watch::channel(false);

    let lap = Lap::begin()?;
    let dispatching = tokio::spawn(Arc::new(dispatcher).run(stopped));
    // Two ends of indexes that are empty when all is done, and never a count.
    let left = "SELECT EXISTS (SELECT 1 FROM item_queue WHERE queue_part = 'O' AND queue_status IN ('READY', 'CLAIMED'))
                    OR EXISTS (SELECT 1 FROM flow WHERE state = 'PENDING')
                    OR EXISTS (SELECT 1 FROM flow WHERE state = 'LIVE')";
    while looker.query_one(left, &[]).await?.get(0) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let sample = lap.sample(count)?;

    stop.send(true)?;
    dispatching.await?;
    engine.shutdown().await;
    let done = "SELECT count(*) FROM flow WHERE state = 'DONE'";
    let finished = "SELECT count(*) FROM item_queue WHERE finished_at IS NOT NULL";
    for question in [done, finished] {
        target::check_rows(url, question, count).await?;
    }
    Ok(sample)
}

async fn configure(store: &PostgresStore) -> Result<()> {
    let config = ItemTypeConfig {
        exec_workflow_type: NoOp::NAME.to_owned(),
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
    type World = ();

    fn key(&self) -> String {
        self.number.to_string()
    }

    fn policy(&self) -> Policy {
        ONCE
    }

    async fn run(&self, _world: &(), _call: &Call) -> Result<u32, StepError> {
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
    type World = PostgresStore;

    fn key(&self) -> String {
        String::new()
    }

    fn policy(&self) -> Policy {
        ONCE
    }

    async fn run(&self, store: &PostgresStore, _call: &Call) -> Result<bool, StepError> {
        let status = StatusMove::new(&["SCHEDULED"], "PROCESSING");
        let finished = store.finish(&self.item, self.run, status).await;
        finished.map_err(|error| StepError::last(error.to_string()))
    }
}
