//! Starts a second: by the client alone, and when the dispatcher claims, starts and records. Nobody
//! works on the task queue, so that the server does nothing else.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use tollgate_core::flow::ExecInput;
use tollgate_core::id::ItemId;
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::ports::{Author, Engine, Memo, SettingKind, Settings, Start};
use tollgate_dispatch::Dispatcher;
use tollgate_domains::payments::{item, item_type};
use tollgate_temporal::{Server, TemporalEngine};

use super::Plan;
use crate::postgres::{fill, target};
use crate::report::table::{Figures, markdown, percent, verdict, whole};
use crate::sample::Sample;
use crate::stopwatch::Lap;

const GOAL: f64 = 0.9;
const FLOW: &str = "SleepingWorkflow";
const NOBODY: &str = "nobody";
/// The default batch of an item type.
const BATCH: u32 = 500;

pub(super) async fn section(plan: &Plan<'_>) -> Result<String> {
    let count = plan.arguments.size.pick(1_000, 2_000);
    let (mut raw, mut dispatched) = (vec![], vec![]);
    for round in 1..=plan.arguments.rounds {
        let (alone_in, ours_in) = (format!("raw-{round}"), format!("dispatched-{round}"));
        // The server becomes slower with what it has taken: each goes first as often as second.
        if round % 2 == 0 {
            dispatched.push(by_the_dispatcher(plan, &ours_in, count).await?);
            raw.push(alone(plan, &alone_in, count).await?);
        } else {
            raw.push(alone(plan, &alone_in, count).await?);
            dispatched.push(by_the_dispatcher(plan, &ours_in, count).await?);
        }
    }
    let (raw, dispatched) = (Figures::rate(&raw), Figures::rate(&dispatched));
    let share = dispatched.over(&raw);
    let head = [
        "starts",
        "client alone, starts/s",
        "dispatcher, starts/s",
        "share",
        "goal",
        "",
    ];
    let row = [
        whole(f64::from(count)),
        raw.show(whole),
        dispatched.show(whole),
        share.show(percent),
        format!("≥ {}", percent(GOAL)),
        verdict(share.median() >= GOAL),
    ];
    Ok(format!(
        "## W7 dispatch\n\n\
         {rounds} rounds, one after the other, each cell in a namespace and a database of its own; median (min–max), \
         the share taken within each round. Both start the same flows with the same inputs, {BATCH} to a call, \
         through the same client; the dispatcher also claims them from PostgreSQL and records each start.\n\n{table}",
        rounds = plan.arguments.rounds,
        table = markdown(head, &[row]),
    ))
}

async fn engine(plan: &Plan<'_>, namespace: &str) -> Result<TemporalEngine> {
    plan.namespace(namespace)?;
    let server = Server::plain(&plan.temporal.address(), namespace, namespace);
    Ok(TemporalEngine::new(server.connect().await?, namespace))
}

async fn alone(plan: &Plan<'_>, namespace: &str, count: u32) -> Result<Sample> {
    let engine = engine(plan, namespace).await?;
    let starts = (1..=count).map(start).collect::<Result<Vec<_>>>()?;
    let lap = Lap::begin()?;
    for batch in starts.chunks(BATCH as usize) {
        let started = engine.start(batch.to_vec()).await?;
        ensure!(started.len() == batch.len(), "the server went away");
    }
    lap.sample(count)
}

/// As the dispatcher starts what `fill` has put into its queue.
fn start(number: u32) -> Result<Start> {
    let item = item(&ItemId::new(format!("item-{number:010}")));
    let memo = Memo::from([("item", item.to_string()), ("lane", "bench".to_owned())]);
    let id = item.exec_flow(1);
    let input = ExecInput {
        item,
        run: 1,
        context_json: "{}".to_owned(),
    };
    Ok(Start {
        id,
        name: FLOW.to_owned(),
        task_queue: NOBODY.to_owned(),
        input_json: serde_json::to_string(&input)?,
        delay: Duration::ZERO,
        memo,
    })
}

async fn by_the_dispatcher(plan: &Plan<'_>, namespace: &str, count: u32) -> Result<Sample> {
    let engine = engine(plan, namespace).await?;
    let url = plan.postgres.database().await;
    let store = target::open_wide(&url).await?;
    let config = ItemTypeConfig {
        exec_workflow_type: FLOW.to_owned(),
        exec_task_queue: NOBODY.to_owned(),
        batch_size: BATCH,
        ..ItemTypeConfig::default()
    };
    let (name, body) = (item_type(), serde_json::to_string(&config)?);
    let author = Author::new("bench", "a type to measure");
    store
        .put_setting(SettingKind::ItemType, name.as_str(), body, author)
        .await?;
    fill::due(&url, count).await?;
    let dispatcher = Dispatcher::new(item_type(), store, Arc::new(engine), 1);
    let lap = Lap::begin()?;
    let mut started = 0;
    while started < u64::from(count) {
        let cycle = dispatcher.cycle().await?;
        ensure!(cycle.started > 0, "nothing was started: {cycle:?}");
        started += cycle.started;
    }
    lap.sample(count)
}
