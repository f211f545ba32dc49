//! The engine's cases on a real Temporal server, with cached workflows and with a full replay
//! on every task.

mod server;

use std::sync::Arc;

use tollgate_conformance::cases::cases;
use tollgate_conformance::sample::{self, World};
use tollgate_temporal::{Registered, RunningWorker, TemporalEngine};

use server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_keeps_its_promises() -> anyhow::Result<()> {
    keeps_its_promises("cached", 1000).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_keeps_its_promises_when_every_task_is_a_full_replay() -> anyhow::Result<()> {
    keeps_its_promises("replayed", 0).await
}

async fn keeps_its_promises(run: &str, cached_flows: usize) -> anyhow::Result<()> {
    let (server, client) = Server::start().await?;
    let world = Arc::new(World::default());
    let mut registered = Registered::new("sample", cached_flows);
    sample::register(&mut registered, &world);
    let worker = RunningWorker::start(client.clone(), registered)?;

    let engine = TemporalEngine::new(client, run);
    cases(&engine, &world, "sample", run).await;

    worker.stop()?;
    drop(server);
    Ok(())
}
