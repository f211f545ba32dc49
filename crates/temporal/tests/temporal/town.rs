//! A PostgreSQL database with things in its queue, a Temporal server, and a flow that counts who
//! was executed how often.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use tollgate_conformance::postgres::{connect, shared};
use tollgate_conformance::temporal::TemporalServer;
use tollgate_core::flow::{
    Call, Ctx, End, ExecInput, Flow, FlowError, Policy, Registrar, Step, StepError,
};
use tollgate_core::id::{FlowId, Item, ItemId, ItemType, LaneName};
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::lane::LaneChange;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{
    Author, Engine, FlowView, ItemView, Lanes, NewItem, NewRecord, Queue, Records, SettingKind,
    Settings, StatusMove, Store,
};
use tollgate_core::retry;
use tollgate_dispatch::Dispatcher;
use tollgate_store::postgres::{PostgresOptions, PostgresStore};
use tollgate_temporal::{Registered, RunningWorker, Size, TemporalEngine};

use crate::at;

pub(crate) const QUEUE: &str = "things";
pub(crate) const LONG: Duration = Duration::from_mins(1);

pub(crate) fn item_type() -> ItemType {
    ItemType::new("THING")
}

pub(crate) fn item(id: &str) -> Item {
    Item::new(&item_type(), &ItemId::new(id))
}

/// Executes a thing: counts it and ends it. One whose name begins with `bad` fails in its first run.
#[derive(Debug)]
pub(crate) struct ThingFlow;

impl Flow for ThingFlow {
    const NAME: &'static str = "ThingFlow";
    type In = ExecInput;
    type Out = ();

    async fn run<C: Ctx>(ctx: C, input: ExecInput) -> Result<End<Self>, FlowError> {
        ctx.step(Execute { input }).await?;
        Ok(End::Done(()))
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Execute {
    input: ExecInput,
}

pub(crate) struct Things {
    store: Arc<dyn Store>,
    executed: Mutex<BTreeMap<String, u32>>,
}

impl Step for Execute {
    const NAME: &'static str = "execute_thing";
    type Out = ();
    type World = Things;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        Policy {
            timeout: Duration::from_secs(10),
            retry: retry::Policy::ONCE,
        }
    }
    async fn run(&self, world: &Things, _: &Call) -> Result<(), StepError> {
        let (item, run) = (&self.input.item, self.input.run);
        let id = item.id.to_string();
        *world
            .executed
            .lock()
            .unwrap()
            .entry(id.clone())
            .or_default() += 1;
        if id.starts_with("bad") && run == 1 {
            return Err(StepError::last("scripted"));
        }
        let done = StatusMove::new(&["SCHEDULED"], "DONE");
        let finished = world.store.finish(item, run, done).await;
        finished
            .map(drop)
            .map_err(|e| StepError::last(e.to_string()))
    }
}

pub(crate) struct Town {
    pub(crate) url: String,
    pub(crate) store: Arc<PostgresStore>,
    pub(crate) things: Arc<Things>,
    pub(crate) engine: Arc<TemporalEngine>,
    _worker: RunningWorker,
    pub(crate) server: TemporalServer,
}

impl Town {
    pub(crate) async fn new() -> Self {
        let url = shared().database().await;
        let store = PostgresStore::open(PostgresOptions::at(&url))
            .await
            .unwrap();
        let store = Arc::new(store);
        let things = Arc::new(Things {
            store: store.clone(),
            executed: Mutex::default(),
        });
        let server = TemporalServer::start();
        let client = at(&server, "town").connect().await.unwrap();
        let mut registered = Registered::new(QUEUE, Size::keeping(1000));
        registered.flow::<ThingFlow>().step::<Execute>(&things);
        let worker = RunningWorker::start(client.clone(), registered).unwrap();
        let town = Self {
            url,
            store,
            things,
            engine: Arc::new(TemporalEngine::new(client, "town")),
            _worker: worker,
            server,
        };
        town.open().await;
        town
    }

    async fn open(&self) {
        let author = || Author::new("test", "test");
        let change = LaneChange {
            max_per_window: Some(100_000),
            window_size_secs: Some(1),
            max_per_second: Some(Decimal::from(100_000)),
            ..LaneChange::default()
        };
        let lane = LaneName::new("default");
        self.store
            .change_lane(&lane, change, author())
            .await
            .unwrap();
        let body = serde_json::to_string(&config()).unwrap();
        let name = item_type();
        let put = self
            .store
            .put_setting(SettingKind::ItemType, name.as_str(), body, author());
        put.await.unwrap();
    }

    pub(crate) fn dispatcher(&self, engine: Arc<dyn Engine>, seed: u64) -> Dispatcher {
        Dispatcher::new(item_type(), self.store.clone(), engine, seed)
    }

    /// Due at once, each with this context.
    pub(crate) async fn admit(&self, ids: &[&str], context_json: &str) {
        let items = ids.iter().map(|id| new_item(id, context_json)).collect();
        self.store.admit(&item_type(), items).await.unwrap();
    }

    pub(crate) async fn item(&self, id: &str) -> ItemView {
        self.store.item(&item(id)).await.unwrap().unwrap()
    }

    pub(crate) fn executed(&self, id: &str) -> u32 {
        let executed = self.things.executed.lock().unwrap();
        executed.get(id).copied().unwrap_or(0)
    }

    /// Waits for the end of one flow.
    pub(crate) async fn ended(&self, id: &str, run: u32) -> FlowView {
        self.engine
            .view(&item(id).exec_flow(run), LONG)
            .await
            .unwrap()
    }

    /// Changes the database behind everybody's back.
    pub(crate) async fn sql(&self, statement: &str) {
        connect(&self.url)
            .await
            .batch_execute(statement)
            .await
            .unwrap();
    }
}

/// A claim is stale after a second.
pub(crate) fn config() -> ItemTypeConfig {
    ItemTypeConfig {
        stale_claim_threshold_mins: Decimal::new(17, 3),
        jitter_window_ms: 0,
        exec_workflow_type: ThingFlow::NAME.to_owned(),
        exec_task_queue: QUEUE.to_owned(),
        ..ItemTypeConfig::default()
    }
}

fn new_item(id: &str, context_json: &str) -> NewItem {
    let money = Money {
        minor: 100,
        currency: Currency::from_code("EUR").unwrap(),
    };
    let record = NewRecord::new("o", "SCHEDULED", money, "h".into());
    let (id, lane) = (ItemId::new(id), LaneName::new("default"));
    NewItem::new(id, lane, record, context_json, FlowId::new("init"))
}
