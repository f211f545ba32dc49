//! The import runner on a real store, with an engine that does what it is told: every chunk has one flow
//! at a time, few run at once, a failed one is followed by another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate_core::id::{BulkId, FlowId, ItemType};
use tollgate_core::ports::{
    BulkState, Bulks, ChunkEnd, ChunkId, Engine, FlowView, NewChunk, Requests, Start, Started,
    Store, Unreachable,
};
use tollgate_dispatch::{ChunkFlow, ImportRunner, Wake};
use tollgate_store::MovableTime;
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

/// Runs a flow when somebody waits for it.
struct Obedient {
    store: Arc<SqliteStore>,
    flows: Mutex<BTreeMap<FlowId, ChunkId>>,
    /// These fail.
    failing: BTreeSet<FlowId>,
    /// Every flow of these chunks fails.
    poisoned: BTreeSet<u32>,
    running: Mutex<(usize, usize)>,
}

#[async_trait]
impl Engine for Obedient {
    async fn start(&self, flows: Vec<Start>) -> Result<Vec<Started>, Unreachable> {
        let mut known = self.flows.lock().unwrap();
        let started = flows.into_iter().map(|flow| {
            assert_eq!(flow.name, "TakeIn");
            let input: Value = serde_json::from_str(&flow.input_json).unwrap();
            let chunk = serde_json::from_value(input["chunk"].clone()).unwrap();
            match known.insert(flow.id, chunk) {
                None => Started::New,
                Some(_) => Started::Already,
            }
        });
        Ok(started.collect())
    }

    async fn view(&self, id: &FlowId, _: Duration) -> Result<FlowView, Unreachable> {
        let chunk = self.flows.lock().unwrap()[id].clone();
        if self.failing.contains(id) || self.poisoned.contains(&chunk.number) {
            let error = "our own mistake".to_owned();
            return Ok(FlowView::Failed { error });
        }
        {
            let mut running = self.running.lock().unwrap();
            running.0 += 1;
            running.1 = running.1.max(running.0);
        }
        tokio::task::yield_now().await;
        let end = ChunkEnd {
            duplicate: 1,
            ..ChunkEnd::default()
        };
        self.store.finish_chunk(&chunk, end).await.unwrap();
        self.running.lock().unwrap().0 -= 1;
        let result_json = "true".to_owned();
        Ok(FlowView::Done { result_json })
    }
}

struct Town {
    store: Arc<SqliteStore>,
    time: MovableTime,
    engine: Arc<Obedient>,
    wake: Wake,
    stop: watch::Sender<bool>,
    runners: JoinSet<()>,
    _folder: TempDir,
}

impl Town {
    fn with_import_runners(runners: usize, failing: &[&str]) -> Self {
        Self::with_poison(runners, failing, &[])
    }

    fn with_poison(runners: usize, failing: &[&str], poisoned: &[u32]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::at(folder.path().join("t.db"));
        let time = options.time.clone();
        let store = Arc::new(SqliteStore::open(options).unwrap());
        let engine = Arc::new(Obedient {
            store: Arc::clone(&store),
            flows: Mutex::default(),
            failing: failing.iter().map(|id| FlowId::new(*id)).collect(),
            poisoned: poisoned.iter().copied().collect(),
            running: Mutex::default(),
        });
        let (stop, stopped) = watch::channel(false);
        let mut town = Self {
            store,
            time,
            engine,
            wake: Wake::default(),
            stop,
            runners: JoinSet::new(),
            _folder: folder,
        };
        for _ in 0..runners {
            let store: Arc<dyn Store> = town.store.clone();
            let flow = ChunkFlow {
                name: "TakeIn".into(),
                task_queue: "init".into(),
            };
            let (engine, wake) = (town.engine.clone(), town.wake.clone());
            let import_runner = ImportRunner::new(payments(), flow, store, engine, wake);
            town.runners.spawn(import_runner.run(stopped.clone()));
        }
        town
    }

    async fn upload(&self, name: &str, chunks: u32) -> BulkId {
        let bulk = BulkId::new(name);
        self.store.open_bulk(&bulk, &payments()).await.unwrap();
        for number in 1..=chunks {
            let (lines, text) = (1, b"text".to_vec());
            let chunk = NewChunk {
                number,
                lines,
                text,
            };
            assert!(self.store.add_chunk(&bulk, chunk).await.unwrap());
        }
        let closed = self.store.close_bulk(&bulk, None, "d".into()).await;
        closed.unwrap();
        self.wake.wake();
        bulk
    }

    /// Until the bulk is done, by the import runners' own pace.
    async fn done(&self, bulk: &BulkId, lines: u64) {
        for _ in 0..10_000 {
            let view = self.store.bulk(bulk).await.unwrap().unwrap();
            if view.state == BulkState::Done {
                assert_eq!(view.duplicate, lines, "each chunk once");
                return;
            }
            tokio::time::sleep(STEP).await;
            self.time.advance(STEP);
        }
        panic!("{bulk} never ends");
    }

    async fn stop(mut self) {
        self.stop.send(true).unwrap();
        while self.runners.join_next().await.is_some() {}
    }
}

/// How far a test moves the time at once.
const STEP: Duration = Duration::from_millis(20);

fn payments() -> ItemType {
    ItemType::new("PAYMENT")
}

#[tokio::test]
async fn every_chunk_is_started_and_few_run_at_once() {
    let town = Town::with_import_runners(1, &[]);
    let first = town.upload("b1", 30).await;
    let second = town.upload("b2", 3).await;
    town.done(&first, 30).await;
    town.done(&second, 3).await;
    assert_eq!(town.engine.flows.lock().unwrap().len(), 33);
    let most = town.engine.running.lock().unwrap().1;
    assert!((1..=4).contains(&most), "{most} at once");
    town.stop().await;
}

#[tokio::test]
async fn two_import_runners_do_not_hurt() {
    let town = Town::with_import_runners(2, &[]);
    let bulk = town.upload("b1", 30).await;
    town.done(&bulk, 30).await;
    let ids: Vec<_> = town.engine.flows.lock().unwrap().keys().cloned().collect();
    assert_eq!(ids.len(), 30, "one flow per chunk");
    town.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_chunk_whose_flow_failed_gets_another() {
    let town = Town::with_import_runners(1, &["init-bulk-b1-2", "init-bulk-b1-2~2"]);
    let bulk = town.upload("b1", 9).await;
    town.done(&bulk, 9).await;
    let flows = town.engine.flows.lock().unwrap().clone();
    assert!(flows.contains_key(&FlowId::new("init-bulk-b1-2~3")));
    assert_eq!(flows.len(), 9 + 2);
    town.stop().await;
}

#[tokio::test(start_paused = true)]
async fn chunks_that_fail_for_ever_hold_nobody_up_and_are_told() {
    let poisoned: Vec<u32> = (1..=9).collect();
    let town = Town::with_poison(1, &[], &poisoned);
    let first = town.upload("b1", 12).await;
    let second = town.upload("b2", 9).await;
    // More of them than places, and before all others: the rest of their own file and other files go on.
    let healthy = town.upload("b3", 12).await;
    for bulk in [&first, &second, &healthy] {
        let done = || async { town.store.bulk(bulk).await.unwrap().unwrap().duplicate };
        let expected = if *bulk == second { 0 } else { 3 };
        for _ in 0..10_000 {
            if done().await >= expected {
                break;
            }
            tokio::time::sleep(STEP).await;
            town.time.advance(STEP);
        }
        assert_eq!(done().await, expected, "{bulk}");
    }
    let view = town.store.bulk(&first).await.unwrap().unwrap();
    assert_eq!(view.state, BulkState::Running);
    assert_eq!(view.failing.unwrap().why, "our own mistake");
    let unplanned = town.store.unplanned(&payments()).await.unwrap();
    assert_eq!(unplanned.lines, 27);
    assert!(unplanned.failing >= 9, "{unplanned:?}");
    town.stop().await;
}
