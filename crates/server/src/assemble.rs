//! Read this first: how the parts become one running Tollgate, and how it stops.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate_api::{App, Door, Uploads};
use tollgate_config::{Config, EngineAt, Role};
use tollgate_core::flow::Registrar;
use tollgate_core::ports::Store;
use tollgate_dispatch::{
    FileOrder, Forecaster, Gate, GateOptions, LEAST_WAY, LEAST_WAY_ON_TEMPORAL, Planner, Wake,
};
use tollgate_domains::invoices::{self, Billing, ChecksInForce};
use tollgate_domains::notifications;
use tollgate_domains::payments::{self, Bank, Intake, Payments, Routes, RulesInForce};
use tollgate_domains::status_checks::{self, StatusCheckService};
use tollgate_downstream::HttpCheckServices;
use tollgate_operations::ages;
use tollgate_operations::archive;
use tollgate_operations::downstreams::asking::Asking;
use tollgate_operations::erasures;
use tollgate_operations::item_types;
use tollgate_operations::lane_activity::Activity;
use tollgate_operations::needs_you::{self, NeedsYou};
use tollgate_operations::rules;
use tollgate_operations::totals::Totals;
use tollgate_operations::write_check::WriteCheck;

use crate::descriptors;
use crate::downstreams::banks::Banks;
use crate::downstreams::check_services;
use crate::downstreams::providers::Provider;
use crate::downstreams::receivers::Receivers;
use crate::engines::on_temporal;
use crate::engines::{FlowServices, RunningEngine};
use crate::lanes;
use crate::leadership::{Basis, End, Leading};
use crate::services::Services;
use crate::store;
use crate::telemetry;
use crate::topics::events::Events;
use crate::topics::feeds::Feeds;

/// All flows and steps of all domains, on whichever engine.
pub(crate) fn register(registrar: &mut impl Registrar, worlds: &FlowServices) {
    payments::register(registrar, &worlds.payments);
    notifications::register(registrar, &worlds.notifications);
    status_checks::register(registrar, &worlds.status_checks);
    invoices::register(registrar, &worlds.invoices);
}

/// A running Tollgate: store, engine, dispatcher and sweeper. The API is served on top of it.
pub struct Tollgate {
    app: App,
    door: Door,
    engine: RunningEngine,
    background: JoinSet<()>,
    stop: watch::Sender<bool>,
    /// Tells those who are being served that the door is about to close.
    closing: watch::Sender<bool>,
    /// To register everything once more, for a replay.
    #[cfg(test)]
    pub(crate) worlds: FlowServices,
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
        descriptors::check(config)?;
        // Before the store: what cannot be served or cannot reach its bank is not started.
        let door = Door::new(config)?;
        let downstreams = Downstreams::connect(config)?;
        let (feeds, events) = (Feeds::connect(config)?, Events::connect(config)?);
        let (store, among) = store::open(config).await?;
        events.turn_on(&*store).await?;
        lanes::create(config, &*store).await?;
        store::seed_settings(&*store).await?;
        ages::check(config, &store).await?;
        downstreams.look_after_lanes(&*store).await?;
        let billing = Arc::new(downstreams.billing(&store));
        let worlds = downstreams.worlds(config, &store, None).await?;

        let (stop, stopped) = watch::channel(false);
        let (closing, closed) = watch::channel(false);
        let fed = Wake::default();
        let engine = match config.engine.at()? {
            EngineAt::Embedded => {
                let basis = Basis {
                    config: config.clone(),
                    store: Arc::clone(&store),
                    kept: worlds.kept(),
                    fed: fed.clone(),
                };
                RunningEngine::Embedded(Leading::start(basis, among).await?)
            }
            EngineAt::Temporal { address, namespace } => {
                on_temporal::start_temporal(config, &worlds, (address, namespace), &stopped).await?
            }
        };
        let uploads = Uploads::new(&store, fed.clone(), closed);
        let app = app(config, &worlds, &engine, Arc::clone(&billing), uploads);
        let mut background = start_background(config, &app, &stopped);
        if config.engine.does(Role::Init) {
            feeds.start(&store, &fed, &stopped, &mut background);
        }
        if config.engine.does(Role::Dispatch) {
            let receivers = &worlds.payments.receivers;
            events.start(&store, receivers, &stopped, &mut background);
        }
        if let RunningEngine::Temporal(_) = engine {
            let services = Services {
                config,
                store: &store,
                engine: engine.handle(),
                billing,
                fed: &fed,
                gate: &worlds.gate,
            };
            start_roles(&services, &engine, &worlds, &stopped, &mut background);
        }
        Ok(Self {
            app,
            door,
            engine,
            background,
            stop,
            closing,
            #[cfg(test)]
            worlds,
        })
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        &self.app.store
    }

    pub fn intake(&self) -> &Arc<Intake> {
        &self.app.intake
    }

    /// Serves the API until `shutdown` resolves, then stops everything in order. A store that must
    /// not be used any more ends it at once, as a crash would: nothing could be written anyway.
    pub async fn serve(
        self,
        socket: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> anyhow::Result<()> {
        let Self { app, door, .. } = self;
        let store = Arc::clone(&app.store);
        let router = door.router(app, self.closing.subscribe());
        let engine = &self.engine;
        let until = async {
            tokio::select! {
                () = shutdown => {}
                () = engine.ended() => {}
            }
            // While those who are being served get their answers.
            engine.hand_over();
            let _ = self.closing.send(true);
        };
        tokio::select! {
            () = door.listener(socket).serve(router, until) => {}
            why = store.broken() => bail!("store.url: {why}"),
        }
        let end = self.engine.end();
        stop_all(self.stop, self.background, self.engine).await;
        match end {
            None => Ok(()),
            Some(End::Fenced(why)) => bail!("another process took over this store: {why}"),
            Some(End::Died(why)) => bail!("the engine stopped: {why}; restart to resume"),
        }
    }

    /// Without having served.
    pub async fn shutdown(self) {
        stop_all(self.stop, self.background, self.engine).await;
    }
}

/// Stops claiming first, then the flows; what is under way is resumed by the next start.
async fn stop_all(stop: watch::Sender<bool>, mut background: JoinSet<()>, engine: RunningEngine) {
    let _ = stop.send(true);
    while background.join_next().await.is_some() {}
    engine.shutdown().await;
}

/// What stays the same from one term as leader to the next. What a person has reloaded since the start stays
/// in force: the configuration is not read again.
#[derive(Clone)]
pub(crate) struct Kept {
    rules: Arc<RulesInForce>,
    invoice_checks: Arc<ChecksInForce>,
    forecaster: Arc<Forecaster>,
}

impl Kept {
    /// Puts the rules of the configuration in force.
    async fn new(
        config: &Config,
        store: &Arc<dyn Store>,
        routes: &Routes<Bank>,
    ) -> anyhow::Result<Self> {
        let types = item_types().map(|(item_type, _)| item_type).to_vec();
        let least_way = match config.engine.at()? {
            EngineAt::Embedded => LEAST_WAY,
            EngineAt::Temporal { .. } => LEAST_WAY_ON_TEMPORAL,
        };
        let margin = config.gate.margin;
        let forecaster = Forecaster::new(Arc::clone(store), types, margin, least_way);
        Ok(Self {
            rules: rules::in_force(config, store, routes).await?,
            invoice_checks: rules::checks_in_force(config, store).await?,
            forecaster: Arc::new(forecaster),
        })
    }
}

impl FlowServices {
    fn kept(&self) -> Kept {
        Kept {
            rules: Arc::clone(&self.payments.rules),
            invoice_checks: Arc::clone(&self.invoice_checks),
            forecaster: Arc::clone(&self.payments.forecaster),
        }
    }
}

/// Everyone outside, as configured; connected to nobody yet.
pub(crate) struct Downstreams {
    banks: Banks,
    receivers: Receivers,
    services: HttpCheckServices,
    provider: Provider,
}

impl Downstreams {
    pub(crate) fn billing(&self, store: &Arc<dyn Store>) -> Billing {
        self.provider.billing(store)
    }

    pub(crate) fn connect(config: &Config) -> anyhow::Result<Self> {
        Ok(Self {
            banks: Banks::connect(&config.downstream)?,
            receivers: Receivers::connect(&config.downstream.notifications)?,
            services: check_services::connect(config)?,
            provider: Provider::connect(&config.downstream)?,
        })
    }

    async fn look_after_lanes(&self, store: &dyn Store) -> anyhow::Result<()> {
        self.banks.require_lanes(store).await?;
        self.receivers.create_lanes(store).await?;
        self.provider.create_lane(store).await
    }

    /// What each domain works with.
    pub(crate) async fn worlds(
        self,
        config: &Config,
        store: &Arc<dyn Store>,
        kept: Option<&Kept>,
    ) -> anyhow::Result<FlowServices> {
        let gate = Arc::new(Gate::new(Arc::clone(store), gate_options(config)));
        let routes = Arc::new(self.banks.routes(store, &gate).await?);
        let Kept {
            rules,
            invoice_checks,
            forecaster,
        } = match kept {
            Some(kept) => kept.clone(),
            None => Kept::new(config, store, &routes).await?,
        };
        let checks = check_services::world(self.services, config, store, &gate)?;
        Ok(FlowServices {
            store: Arc::clone(store),
            payments: Arc::new(Payments {
                store: Arc::clone(store),
                receivers: self.receivers.named(),
                routes,
                rules,
                forecaster,
                order: FileOrder::new(Arc::clone(store)),
            }),
            notifications: Arc::new(self.receivers.world(store, &gate)),
            status_checks: Arc::new(checks),
            invoices: Arc::new(
                self.provider
                    .world(&config.invoices, store, &gate, Arc::clone(&invoice_checks))
                    .await?,
            ),
            invoice_checks,
            gate,
        })
    }
}

/// What the API works with.
fn app(
    config: &Config,
    worlds: &FlowServices,
    engine: &RunningEngine,
    billing: Arc<Billing>,
    uploads: Uploads,
) -> App {
    let (store, payments) = (&worlds.store, &worlds.payments);
    let types = item_types().map(|(item_type, _)| item_type).to_vec();
    let planner = Arc::new(Planner::new(Arc::clone(store), types, config.gate.margin));
    let forecaster = Arc::clone(&payments.forecaster);
    let wants_standby = config.store.leadership == tollgate_config::Leadership::Standby;
    let standbys = engine.nodes().filter(|_| wants_standby);
    App {
        store: Arc::clone(store),
        intake: Arc::new(Intake {
            store: Arc::clone(store),
            engine: engine.handle(),
        }),
        uploads: Arc::new(uploads),
        status_checks: Arc::new(StatusCheckService {
            store: Arc::clone(store),
            engine: engine.handle(),
            config: config.status_check.workflow(),
        }),
        billing,
        receivers: payments.receivers.clone().into(),
        rules: Arc::clone(&payments.rules),
        checks: Arc::clone(&worlds.invoice_checks),
        routes: Arc::clone(&payments.routes),
        asking: Arc::new(Asking::new(config, &worlds.gate)),
        config_file: config.file.clone(),
        ask: config.in_doubt.ask,
        two_persons: config.in_doubt.two_persons,
        erasure_outside: erasures::outside(config).into(),
        lane: config.downstream.payments.lane.clone(),
        activity: Arc::new(Activity::new(store, &forecaster)),
        forecaster,
        totals: Arc::new(Totals::new(store)),
        exports: archive::exports(config, store),
        export_upkeep: archive::upkeep(config, store),
        archiver: Arc::new(archive::archiver(config, store)),
        retention: config.retention().unwrap_or_default().into(),
        planner,
        needs_you: Arc::new(NeedsYou::new(config, store, &payments.forecaster, standbys)),
        writes: Arc::new(WriteCheck::new(store)),
        engine: engine.readiness(),
        metrics: || telemetry::recorder().render(),
        nodes: engine.nodes(),
    }
}

/// What every process does beside serving, whoever leads.
fn start_background(config: &Config, app: &App, stopped: &watch::Receiver<bool>) -> JoinSet<()> {
    let mut background = JoinSet::new();
    background.spawn(telemetry::fold_histograms(stopped.clone()));
    let (store, writes) = (Arc::clone(&app.store), Arc::clone(&app.writes));
    background.spawn(telemetry::watch_store(store, writes, stopped.clone()));
    if config.engine.does(Role::Dispatch) {
        let gauges = telemetry::watch_lanes(
            Arc::clone(&app.store),
            Arc::clone(&app.forecaster),
            app.planner.margin(),
            stopped.clone(),
        );
        background.spawn(gauges);
        let needs_you = Arc::clone(&app.needs_you);
        background.spawn(needs_you::measure(needs_you, stopped.clone()));
    }
    background
}

/// On Temporal: what this process was told to do.
fn start_roles(
    services: &Services<'_>,
    engine: &RunningEngine,
    worlds: &FlowServices,
    stopped: &watch::Receiver<bool>,
    background: &mut JoinSet<()>,
) {
    let roles = &services.config.engine;
    if roles.does(Role::Dispatch) {
        services.look_after(stopped, background);
        if let Some(keeper) = on_temporal::keeper(engine, services.store) {
            background.spawn(keeper.run(stopped.clone()));
        }
    }
    if roles.does(Role::Init) {
        services.intake(stopped, background);
    }
    if roles.does(Role::Exec) {
        background.spawn(Arc::clone(&worlds.gate).watch_clock(stopped.clone()));
    }
}

fn gate_options(config: &Config) -> GateOptions {
    GateOptions {
        tolerance: Duration::from_millis(config.gate.tolerance_ms),
        patience: Duration::from_secs(config.gate.patience_secs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On one thread no task of the start runs beside it: what is so when it returns was done by the start itself.
    #[tokio::test]
    async fn a_process_that_has_started_leads_and_the_first_request_finds_an_engine() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::load(None).unwrap();
        config.store.url = format!("sqlite:{}", folder.path().join("t.db").display());
        let tollgate = Tollgate::start(&config).await.unwrap();
        assert!(format!("{tollgate:?}").contains("Leader("), "{tollgate:?}");
        let started = tollgate.engine.handle().start(vec![]).await;
        assert!(started.is_ok(), "{started:?}");
        tollgate.shutdown().await;
    }
}
