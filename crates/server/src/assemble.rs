//! Read this first: how the parts become one running Tollgate, and how it stops.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate_core::flow::Registrar;
use tollgate_core::id::{ItemType, LaneName};
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{Author, SettingKind, Store, StoreError};
use tollgate_dispatch::{Gate, GateOptions, Planner, Reconciler, Sweeper};
use tollgate_domains::payments::{self, Intake, Payments};
use tollgate_engine::Stop;
use tollgate_store::postgres::{PostgresOptions, PostgresStore};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

use crate::api;
use crate::banks::Banks;
use crate::config::{Config, Role, StoreAt};
use crate::engines::{self, RunningEngine, Worlds};
use crate::telemetry;

/// The lane that exists from the start, with 100 items per 4 seconds.
const DEFAULT_LANE: &str = "default";

/// All that is executed through the queue, each with its configuration before anyone changes it.
pub(crate) fn item_types() -> Vec<(ItemType, ItemTypeConfig)> {
    vec![(payments::item_type(), payments::default_config())]
}

/// All flows and steps of all domains, on whichever engine.
pub(crate) fn register(registrar: &mut impl Registrar, worlds: &Worlds) {
    payments::register(registrar, &worlds.payments);
}

/// A running Tollgate: store, engine, dispatcher and sweeper. The API is served on top of it.
pub struct Tollgate {
    pub store: Arc<dyn Store>,
    pub intake: Arc<Intake>,
    pub planner: Arc<Planner>,
    two_persons: bool,
    lane: LaneName,
    serves_api: bool,
    engine: RunningEngine,
    background: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl std::fmt::Debug for Tollgate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tollgate")
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}

impl Tollgate {
    pub async fn start(config: &Config) -> anyhow::Result<Self> {
        telemetry::recorder();
        // Before the store: what cannot reach its bank is not started.
        let banks = Banks::connect(&config.downstream)?;
        let store = open_store(config).await?;
        seed_settings(&*store).await?;

        banks.warn_of_missing_lanes(&*store).await?;
        let gate = Arc::new(Gate::new(Arc::clone(&store), gate_options(config)));
        let world = Payments {
            routes: banks.routes(&store, &gate),
            store: Arc::clone(&store),
        };

        let worlds = Worlds {
            store: Arc::clone(&store),
            payments: Arc::new(world),
        };

        let (stop, stopped) = watch::channel(false);
        let engine = RunningEngine::start(config, &worlds, &stopped).await?;
        let types = item_types().into_iter().map(|(item_type, _)| item_type);
        let planner = Planner::new(Arc::clone(&store), types.collect(), config.gate.margin);
        let planner = Arc::new(planner);
        let background = start_background(config, &store, &engine, &planner, &stopped).await?;

        let intake = Arc::new(Intake {
            store: Arc::clone(&store),
            engine: engine.handle(),
        });
        Ok(Self {
            store,
            intake,
            planner,
            two_persons: config.in_doubt.two_persons,
            lane: config.downstream.payments.lane.clone(),
            serves_api: config.engine.does(Role::Api),
            engine,
            background,
            stop,
        })
    }

    /// Serves the API until `shutdown` resolves, then stops everything in order.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> anyhow::Result<()> {
        let app = api::App {
            store: Arc::clone(&self.store),
            intake: Arc::clone(&self.intake),
            planner: Arc::clone(&self.planner),
            two_persons: self.two_persons,
            lane: self.lane.clone(),
            engine: self.engine.readiness(),
        };
        let app = if self.serves_api {
            api::router(app)
        } else {
            api::health_alone(app)
        };
        let engine = self.engine.end();
        let (ended, engine_ended) = watch::channel(None);
        let until = async move {
            tokio::select! {
                () = shutdown => {}
                stop = engine.stopped() => {
                    let _ = ended.send(Some(stop));
                }
            }
        };
        axum::serve(listener, app)
            .with_graceful_shutdown(until)
            .await
            .context("serving the API")?;
        self.shutdown().await;
        match &*engine_ended.borrow() {
            None | Some(Stop::Shutdown) => Ok(()),
            Some(Stop::Fenced(why)) => bail!("another process has taken over this store: {why}"),
            Some(Stop::Died(why)) => bail!("the engine has died: {why}; start again to resume"),
        }
    }

    /// Stops claiming first, then the flows; what is under way is resumed by the next start.
    pub async fn shutdown(mut self) {
        let _ = self.stop.send(true);
        while self.background.join_next().await.is_some() {}
        self.engine.shutdown().await;
    }
}

/// What runs beside the API and the engine until told to stop.
async fn start_background(
    config: &Config,
    store: &Arc<dyn Store>,
    engine: &RunningEngine,
    planner: &Arc<Planner>,
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<JoinSet<()>> {
    let mut background = JoinSet::new();
    if !config.engine.does(Role::Dispatch) {
        return Ok(background);
    }
    let every = Duration::from_secs;
    let handle = engine.handle();
    for (item_type, _) in item_types() {
        if let RunningEngine::Embedded(_) = engine {
            let dispatcher = engines::dispatcher(&item_type, store, &handle).await?;
            background.spawn(Arc::new(dispatcher).run(stopped.clone()));
        }
        let sweeper = Sweeper::new(item_type, Arc::clone(store), Arc::clone(&handle));
        background.spawn(sweeper.run(every(config.sweep.interval_secs), stopped.clone()));
    }
    if let Some(keeper) = engines::keeper(engine, store) {
        background.spawn(keeper.run(stopped.clone()));
    }
    let reconciler = Reconciler::new(Arc::clone(planner));
    let pause = every(config.sweep.reconcile_secs);
    background.spawn(reconciler.run(Arc::clone(store), pause, stopped.clone()));
    let gauges = telemetry::watch_lanes(Arc::clone(store), Arc::clone(planner), stopped.clone());
    background.spawn(gauges);
    Ok(background)
}

async fn open_store(config: &Config) -> anyhow::Result<Arc<dyn Store>> {
    let gate_margin = config.gate.margin;
    let store: Arc<dyn Store> = match config.store.at()? {
        StoreAt::Sqlite(path) => {
            let options = SqliteOptions {
                gate_margin,
                ..SqliteOptions::at(path)
            };
            Arc::new(SqliteStore::open(options).map_err(wrong_store)?)
        }
        StoreAt::Postgres(url) => {
            let options = PostgresOptions {
                gate_margin,
                connections: config.store.connections,
                ..PostgresOptions::at(url)
            };
            Arc::new(PostgresStore::open(options).await.map_err(wrong_store)?)
        }
    };
    Ok(store)
}

fn wrong_store(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Unavailable(why) | StoreError::Invalid(why) => {
            anyhow::anyhow!("store.url: {why}")
        }
        StoreError::Fenced(_) | StoreError::Bug(_) => anyhow::anyhow!("store.url: {error}"),
    }
}

fn gate_options(config: &Config) -> GateOptions {
    GateOptions {
        tolerance: Duration::from_millis(config.gate.tolerance_ms),
        patience: Duration::from_secs(config.gate.patience_secs),
    }
}

/// What a new database needs before the first payment: the default lane and the item types.
async fn seed_settings(store: &dyn Store) -> anyhow::Result<()> {
    let author = || Author::new("tollgate", "first start");
    let lane = LaneName::new(DEFAULT_LANE);
    if store.lane(&lane).await?.is_none() {
        let change = LaneChange {
            max_per_window: Some(100),
            window_size_secs: Some(4),
            ..LaneChange::default()
        };
        store.change_lane(&lane, change, author()).await?;
    }
    for (item_type, default) in item_types() {
        let name = item_type.as_str();
        let stored = store.setting(SettingKind::ItemType, name).await?;
        if stored.is_none() {
            let body = serde_json::to_string(&default)?;
            store
                .put_setting(SettingKind::ItemType, name, body, author())
                .await?;
        }
    }
    Ok(())
}
