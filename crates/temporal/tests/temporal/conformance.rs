//! The engine's promises, with cached workflows and with a full replay on every task.

use std::sync::Arc;

use tollgate_conformance::cases::cases;
use tollgate_conformance::sample::{self, World};
use tollgate_conformance::temporal::TemporalServer;
use tollgate_temporal::{Registered, RunningWorker, Size, TemporalEngine};

use crate::at;

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_keeps_its_promises() {
    keeps_its_promises("cached", 1000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engine_keeps_its_promises_when_every_task_is_a_full_replay() {
    keeps_its_promises("replayed", 0).await;
}

async fn keeps_its_promises(run: &str, cached_flows: usize) {
    let server = TemporalServer::start();
    let client = at(&server, run).connect().await.unwrap();
    let world = Arc::new(World::default());
    let mut registered = Registered::new("sample", Size::keeping(cached_flows));
    sample::register(&mut registered, &world);
    let worker = RunningWorker::start(client.clone(), registered).unwrap();

    let engine = TemporalEngine::new(client, run);
    cases(&engine, &world, "sample", run).await;
    worker.stop().unwrap();
}
