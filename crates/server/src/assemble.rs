//! Read this first: how the parts become one running Tollgate, and how it stops.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tollgate_core::actor;
use tollgate_core::flow::{Flow, Registrar};
use tollgate_core::id::{ItemType, LaneName};
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{Author, Engine, SettingKind, Store, StoreError};
use tollgate_dispatch::{
    CheckRetention, ChunkFlow, Feeder, Gate, GateOptions, Planner, Reconciler, Sweeper, Wake,
};
use tollgate_domains::invoices::{self, Billing};
use tollgate_domains::notifications::{self, Receiver};
use tollgate_domains::payments::bulk::PaymentBulkInitFlow;
use tollgate_domains::payments::{self, Bank, Intake, Payments, Routes, RulesInForce};
use tollgate_domains::status_checks::{self, StatusCheckService};
use tollgate_engine::Stop;
use tollgate_store::postgres::{PostgresOptions, PostgresStore};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

use crate::api;
use crate::auth::Tokens;
use crate::banks::Banks;
use crate::check_services;
use crate::config::{Config, Http, Role, StoreAt};
use crate::console::Console;
use crate::engines::{self, RunningEngine, Worlds};
use crate::listener::Listener;
use crate::providers::{self, Provider};
use crate::pulse::Pulse;
use crate::receivers::Receivers;
use crate::totals::Totals;
use crate::{telemetry, tls};

/// The lane that exists from the start, with 100 items per 4 seconds.
const DEFAULT_LANE: &str = "default";

/// All that is executed through the queue, each with its configuration before anyone changes it.
pub(crate) fn item_types() -> [(ItemType, ItemTypeConfig); 3] {
    [
        (payments::item_type(), payments::default_config()),
        (notifications::item_type(), notifications::default_config()),
        (invoices::item_type(), invoices::default_config()),
    ]
}

/// All flows and steps of all domains, on whichever engine.
pub(crate) fn register(registrar: &mut impl Registrar, worlds: &Worlds) {
    payments::register(registrar, &worlds.payments);
    notifications::register(registrar, &worlds.notifications);
    status_checks::register(registrar, &worlds.status_checks);
    invoices::register(registrar, &worlds.invoices);
}

/// A running Tollgate: store, engine, dispatcher and sweeper. The API is served on top of it.
pub struct Tollgate {
    pub store: Arc<dyn Store>,
    pub intake: Arc<Intake>,
    pub planner: Arc<Planner>,
    pub status_checks: Arc<StatusCheckService>,
    billing: Arc<Billing>,
    receivers: Arc<[Receiver]>,
    rules: Arc<RulesInForce>,
    routes: Arc<Routes<Bank>>,
    config_file: Option<PathBuf>,
    fed: Wake,
    two_persons: bool,
    lane: LaneName,
    tokens: Tokens,
    tls: Option<TlsAcceptor>,
    by_tls: bool,
    http: Http,
    serves_api: bool,
    engine: RunningEngine,
    background: JoinSet<()>,
    stop: watch::Sender<bool>,
    /// To register everything once more, for a replay.
    #[cfg(test)]
    pub(crate) worlds: Worlds,
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
        // Before the store: what cannot be served or cannot reach its bank is not started.
        let tls = tls::acceptor(&config.tls)?;
        let banks = Banks::connect(&config.downstream)?;
        let receivers = Receivers::connect(&config.downstream.notifications)?;
        let services = check_services::connect(config)?;
        let provider = Provider::connect(&config.downstream)?;
        let store = open_store(config).await?;
        seed_settings(&*store).await?;

        banks.warn_of_missing_lanes(&*store).await?;
        receivers.create_lanes(&*store).await?;
        provider.create_lane(&*store).await?;
        let billing = Arc::new(provider.billing(&store));
        let gate = Arc::new(Gate::new(Arc::clone(&store), gate_options(config)));
        let told = receivers.named();
        let routes = Arc::new(banks.routes(&store, &gate));
        let rules = rules_in_force(config, &store, &routes).await?;
        let checks = check_services::world(services, config, &store, &gate)?;
        let worlds = Worlds {
            status_checks: Arc::new(checks),
            store: Arc::clone(&store),
            payments: Arc::new(Payments {
                routes: Arc::clone(&routes),
                store: Arc::clone(&store),
                receivers: told.clone(),
                rules: Arc::clone(&rules),
            }),
            notifications: Arc::new(receivers.world(&store, &gate)),
            invoices: Arc::new(provider.world(&config.invoices, &store, &gate)?),
        };

        let (stop, stopped) = watch::channel(false);
        let engine = RunningEngine::start(config, &worlds, &stopped).await?;
        let types = item_types().map(|(item_type, _)| item_type).to_vec();
        let planner = Arc::new(Planner::new(Arc::clone(&store), types, config.gate.margin));
        let mut background = start_background(config, &store, &engine, &planner, &stopped).await?;
        if config.engine.does(Role::Dispatch) {
            background.spawn(providers::sweep(config, &billing, stopped.clone()));
        }
        let fed = Wake::default();
        if config.engine.does(Role::Init) {
            background.spawn(feeder(&store, &engine.handle(), &fed).run(stopped));
        }

        Ok(Self {
            intake: Arc::new(intake(&store, &engine)),
            status_checks: Arc::new(status_checks(config, &store, &engine)),
            store,
            planner,
            billing,
            receivers: told.into(),
            rules,
            routes,
            config_file: config.file.clone(),
            fed,
            two_persons: config.in_doubt.two_persons,
            lane: config.downstream.payments.lane.clone(),
            tokens: config.auth.tokens()?,
            tls,
            by_tls: config.tls.protects(),
            http: config.http.clone(),
            serves_api: config.engine.does(Role::Api),
            engine,
            background,
            stop,
            #[cfg(test)]
            worlds,
        })
    }

    /// Serves the API until `shutdown` resolves, then stops everything in order.
    pub async fn serve(
        mut self,
        socket: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> anyhow::Result<()> {
        let (closing, closed) = watch::channel(false);
        let app = api::App {
            store: Arc::clone(&self.store),
            intake: Arc::clone(&self.intake),
            uploads: Arc::new(api::Uploads::new(
                &self.store,
                self.fed.clone(),
                closed.clone(),
            )),
            planner: Arc::clone(&self.planner),
            status_checks: Arc::clone(&self.status_checks),
            billing: Arc::clone(&self.billing),
            receivers: Arc::clone(&self.receivers),
            rules: Arc::clone(&self.rules),
            routes: Arc::clone(&self.routes),
            config_file: self.config_file.clone(),
            two_persons: self.two_persons,
            lane: self.lane.clone(),
            pulse: Arc::new(Pulse::new(&self.store, &self.planner)),
            totals: Arc::new(Totals::new(&self.store)),
            engine: self.engine.readiness(),
        };
        let tokens = Arc::new(std::mem::take(&mut self.tokens));
        let patience = self.http.body();
        let app = if !self.serves_api {
            api::health_alone(app, tokens, patience)
        } else if self.http.console {
            let api = api::router(app, Arc::clone(&tokens), patience);
            let console = Console::new(api, tokens, self.by_tls, closed);
            console.beside_the_api(patience)
        } else {
            api::router(app, tokens, patience)
        };
        let listener = Listener::new(socket, self.tls.take(), self.http.clone());
        let engine = self.engine.end();
        let (ended, engine_ended) = watch::channel(None);
        let until = async move {
            tokio::select! {
                () = shutdown => {}
                stop = engine.stopped() => {
                    let _ = ended.send(Some(stop));
                }
            }
            let _ = closing.send(true);
        };
        listener.serve(app, until).await;
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

/// The rules of the configuration are in force from here on, if they were not before.
async fn rules_in_force(
    config: &Config,
    store: &Arc<dyn Store>,
    routes: &Routes<Bank>,
) -> anyhow::Result<Arc<RulesInForce>> {
    let rules = RulesInForce::new(Arc::clone(store), routes.gateway_names());
    let author = Author::new(actor::CONFIGURATION, "read at the start");
    if let Some(setting) = rules.put(&config.rules_text(), author).await? {
        tracing::info!(
            version = setting.version,
            "new rules and routes are in force"
        );
    }
    Ok(Arc::new(rules))
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
    background.spawn(telemetry::fold_histograms(stopped.clone()));
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
    let older_than = config.status_check.retention();
    let retention = CheckRetention { older_than };
    background.spawn(retention.run(Arc::clone(store), stopped.clone()));
    let gauges = telemetry::watch_lanes(Arc::clone(store), Arc::clone(planner), stopped.clone());
    background.spawn(gauges);
    Ok(background)
}

fn intake(store: &Arc<dyn Store>, engine: &RunningEngine) -> Intake {
    Intake {
        store: Arc::clone(store),
        engine: engine.handle(),
    }
}

fn status_checks(
    config: &Config,
    store: &Arc<dyn Store>,
    engine: &RunningEngine,
) -> StatusCheckService {
    StatusCheckService {
        store: Arc::clone(store),
        engine: engine.handle(),
        config: config.status_check.workflow(),
    }
}

/// Takes in the files that were uploaded.
fn feeder(store: &Arc<dyn Store>, engine: &Arc<dyn Engine>, wake: &Wake) -> Feeder {
    let flow = ChunkFlow {
        name: PaymentBulkInitFlow::NAME.to_owned(),
        task_queue: payments::INIT_TASK_QUEUE.to_owned(),
    };
    let (store, engine) = (Arc::clone(store), Arc::clone(engine));
    Feeder::new(payments::item_type(), flow, store, engine, wake.clone())
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
    let author = || Author::new(actor::TOLLGATE, "first start");
    let lane = LaneName::new(DEFAULT_LANE);
    if store.lane(&lane).await?.is_none() {
        let change = LaneChange {
            max_per_window: Some(100),
            window_size_secs: Some(4),
            ..LaneChange::default()
        };
        store.change_lane(&lane, change, author()).await?;
    }
    for (item_type, config) in item_types() {
        let (kind, name) = (SettingKind::ItemType, item_type.as_str());
        if store.setting(kind, name).await?.is_none() {
            let body = serde_json::to_string(&config)?;
            store.put_setting(kind, name, body, author()).await?;
        }
    }
    Ok(())
}
