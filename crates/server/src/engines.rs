//! The engine of this process, embedded or Temporal, behind one face.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::future::BoxFuture;
use tokio::sync::watch;
use tollgate_core::id::ItemType;
use tollgate_core::ports::{Engine, Store};
use tollgate_dispatch::{DISPATCH_TASK_QUEUE, Dispatcher, Dispatchers, Gate};
use tollgate_domains::invoices::{ChecksInForce, Invoices};
use tollgate_domains::notifications::Notifications;
use tollgate_domains::payments::{self, Payments};
use tollgate_domains::status_checks;
use tollgate_engine::{Builder, Options, Ready};
use tollgate_temporal::{
    CodecKeys, Reach, Registered, Server, Size, TaskQueues, TemporalService, Tls, WantedWorkers,
};

use crate::assemble::{item_types, register};
use crate::config::{Config, EngineAt, Role, Temporal, WorkerSize};
use crate::dispatch_schedules::Keeper;
use crate::leadership::{End, Leading, Nodes};

/// How everything in PEM begins.
const PEM: &[u8] = b"-----BEGIN ";
/// Whoever asks why a payment does not run waits so long for the engine's word.
const QUEUE_PATIENCE: Duration = Duration::from_secs(1);

/// What flows and steps work with.
pub(crate) struct Worlds {
    pub(crate) store: Arc<dyn Store>,
    /// The one gate of this process, which all of them send through.
    pub(crate) gate: Arc<Gate>,
    pub(crate) payments: Arc<Payments>,
    pub(crate) notifications: Arc<Notifications>,
    pub(crate) status_checks: Arc<status_checks::World>,
    pub(crate) invoices: Arc<Invoices>,
    pub(crate) invoice_checks: Arc<ChecksInForce>,
}

pub(crate) enum RunningEngine {
    Embedded(Leading),
    Temporal(TemporalService),
}

impl RunningEngine {
    pub(crate) fn handle(&self) -> Arc<dyn Engine> {
        match self {
            Self::Embedded(leading) => leading.engine(),
            Self::Temporal(service) => service.engine(),
        }
    }

    pub(crate) fn readiness(&self) -> Readiness {
        match self {
            Self::Embedded(_) => Readiness(None),
            Self::Temporal(service) => Readiness(Some((service.reach(), service.task_queues()))),
        }
    }

    /// Who leads; nothing on Temporal, where nobody does.
    pub(crate) fn nodes(&self) -> Option<Nodes> {
        match self {
            Self::Embedded(leading) => Some(leading.nodes()),
            Self::Temporal(_) => None,
        }
    }

    /// Resolves when flows run no more and this process must end. Temporal is waited for instead.
    pub(crate) async fn ended(&self) {
        match self {
            Self::Embedded(leading) => leading.ended().await,
            Self::Temporal(_) => std::future::pending().await,
        }
    }

    /// Why it must, if it must.
    pub(crate) fn end(&self) -> Option<End> {
        match self {
            Self::Embedded(leading) => leading.end(),
            Self::Temporal(_) => None,
        }
    }

    /// This process is about to end: another one may lead.
    pub(crate) fn hand_over(&self) {
        if let Self::Embedded(leading) = self {
            leading.hand_over();
        }
    }

    pub(crate) async fn shutdown(self) {
        match self {
            Self::Embedded(leading) => leading.shutdown().await,
            Self::Temporal(service) => service.shutdown().await,
        }
    }
}

pub(crate) async fn start_temporal(
    config: &Config,
    worlds: &Worlds,
    (address, namespace): (String, String),
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<RunningEngine> {
    let caller = caller(&*worlds.store).await?;
    let server = server(&config.engine.temporal, address, namespace, caller)?;
    let service = temporal(config, worlds, server, stopped).await?;
    Ok(RunningEngine::Temporal(service))
}

/// Whether flows can be started now.
#[derive(Clone, Debug)]
pub(crate) struct Readiness(Option<(Reach, TaskQueues)>);

impl Readiness {
    /// What is wrong, if anything is.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.0.as_ref()?.0.trouble()
    }

    /// Whether flows of this task queue wait for a process that works on it. While the engine does
    /// not say, it is not claimed.
    pub(crate) async fn nobody_works_on(&self, task_queue: &str) -> bool {
        let Some((_, queues)) = &self.0 else {
            return false;
        };
        let asked = tokio::time::timeout(QUEUE_PATIENCE, queues.workers(task_queue));
        matches!(asked.await, Ok(Ok(0)))
    }

    /// Whether flows may be put on this task queue.
    pub(crate) async fn takes(&self, task_queue: &str) -> QueueState {
        let Some((_, queues)) = &self.0 else {
            return QueueState::NoQueues;
        };
        let asked = tokio::time::timeout(QUEUE_PATIENCE, queues.workers(task_queue));
        match asked.await {
            Ok(Ok(0)) => QueueState::Unpolled,
            Ok(Ok(_)) => QueueState::Polled,
            Ok(Err(away)) => QueueState::Unknown(away.to_string()),
            Err(_) => QueueState::Unknown("Temporal did not answer in time".to_owned()),
        }
    }
}

/// What is known of a task queue.
pub(crate) enum QueueState {
    /// The embedded engine has none.
    NoQueues,
    Polled,
    Unpolled,
    Unknown(String),
}

/// The embedded engine, with everything but its epoch.
pub(crate) fn ready(config: &Config, worlds: &Worlds) -> anyhow::Result<Ready> {
    let mut builder = Builder::default();
    register(&mut builder, worlds);
    let defaults = Options::default();
    let options = Options {
        max_running: config.engine.max_running,
        max_live: defaults.max_live.max(config.engine.max_running),
        ..defaults
    };
    Ok(Ready::new(builder, options)?)
}

async fn temporal(
    config: &Config,
    worlds: &Worlds,
    server: Server,
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<TemporalService> {
    let connected = TemporalService::connect(server).await;
    let mut service = connected.map_err(|error| anyhow::anyhow!("engine.url: {error}"))?;
    let mut workers = vec![];
    let sizes = &config.engine.temporal;
    if config.engine.does(Role::Dispatch) {
        let dispatchers = dispatchers(worlds, &service.engine(), stopped).await?;
        let mut worker = worker(DISPATCH_TASK_QUEUE, sizes, sizes.dispatch);
        Dispatchers::register(&mut worker, &dispatchers);
        workers.push(worker);
    }
    let serving = |queue: &str, size| {
        let mut worker = worker(queue, sizes, size);
        register(&mut worker, worlds);
        worker
    };
    if config.engine.does(Role::Init) {
        workers.push(serving(payments::INIT_TASK_QUEUE, sizes.init));
    }
    let mut exec = None;
    if config.engine.does(Role::Exec) {
        let worker = serving(status_checks::TASK_QUEUE, sizes.exec);
        workers.push(worker.clone());
        let mut queues = exec_queues(&*worlds.store).await?;
        queues.extend(sizes.exec_task_queues.iter().cloned());
        let (store, queues) = (Arc::clone(&worlds.store), Mutex::new(queues));
        exec = Some(ExecWorkers {
            store,
            worker,
            queues,
        });
    }
    service.run(WorkersOfRoles {
        fixed: workers,
        exec,
    });
    Ok(service)
}

/// The workers of this process, by its roles.
struct WorkersOfRoles {
    fixed: Vec<Registered>,
    exec: Option<ExecWorkers>,
}

/// One for every task queue that any item type has, or had: what was started there ends there.
struct ExecWorkers {
    store: Arc<dyn Store>,
    worker: Registered,
    /// All that were seen so far.
    queues: Mutex<BTreeSet<String>>,
}

impl WantedWorkers for WorkersOfRoles {
    fn wanted(&self) -> BoxFuture<'_, Vec<Registered>> {
        Box::pin(async {
            let mut wanted = self.fixed.clone();
            if let Some(exec) = &self.exec {
                wanted.extend(exec.wanted().await);
            }
            wanted
        })
    }
}

impl ExecWorkers {
    async fn wanted(&self) -> Vec<Registered> {
        let found = exec_queues(&*self.store).await;
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Ok(found) => queues.extend(found),
            Err(error) => tracing::warn!(%error, "the task queues of item types cannot be read"),
        }
        queues.iter().map(|queue| self.worker.on(queue)).collect()
    }
}

fn worker(queue: &str, temporal: &Temporal, size: WorkerSize) -> Registered {
    let size = Size {
        flows: size.flows,
        steps: size.steps,
        cached: temporal.cached_flows,
        drain: Duration::from_secs(temporal.drain_secs),
    };
    Registered::new(queue, size)
}

async fn dispatchers(
    worlds: &Worlds,
    engine: &Arc<dyn Engine>,
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<Arc<Dispatchers>> {
    let mut by_type: Vec<(ItemType, Arc<Dispatcher>)> = vec![];
    for (item_type, _) in item_types() {
        let dispatcher = dispatcher(&item_type, &worlds.store, engine).await?;
        by_type.push((item_type, Arc::new(dispatcher)));
    }
    Ok(Arc::new(Dispatchers::new(by_type, stopped.clone())))
}

pub(crate) async fn dispatcher(
    item_type: &ItemType,
    store: &Arc<dyn Store>,
    engine: &Arc<dyn Engine>,
) -> anyhow::Result<Dispatcher> {
    // Batch ids must differ between starts and between nodes: shared time does the one, and the
    // number of the process the other if two start in the same microsecond.
    let now = store.now().await?.as_microsecond().unsigned_abs();
    let seed = now ^ (u64::from(std::process::id()) << 40);
    let (store, engine) = (Arc::clone(store), Arc::clone(engine));
    Ok(Dispatcher::new(item_type.clone(), store, engine, seed))
}

/// Where the flows of all item types are put, now and by default, and where they were put by the last versions.
pub(crate) async fn exec_queues(store: &dyn Store) -> anyhow::Result<BTreeSet<String>> {
    let mut queues = BTreeSet::new();
    for (item_type, default) in item_types() {
        queues.extend(tollgate_dispatch::exec_task_queues(store, &item_type).await?);
        queues.insert(default.exec_task_queue);
    }
    queues.retain(|queue| !queue.is_empty());
    Ok(queues)
}

/// Names this start of this process: no other on the same database has the same.
async fn caller(store: &dyn Store) -> anyhow::Result<String> {
    let now = store.now().await?.as_microsecond();
    Ok(format!("tollgate-{}-{now}", std::process::id()))
}

fn server(
    temporal: &Temporal,
    address: String,
    namespace: String,
    caller: String,
) -> anyhow::Result<Server> {
    let api_key = temporal.api_key.value();
    let api_key = api_key.map_err(|error| anyhow::anyhow!("engine.temporal.api_key: {error}"))?;
    Ok(Server {
        address,
        namespace,
        tls: temporal.tls.then(|| tls(temporal)).transpose()?,
        api_key: Some(api_key).filter(|key| !key.is_empty()),
        codec: codec(temporal)?,
        caller,
    })
}

/// Reads what a start would read, keys and certificates; nothing is connected.
pub(crate) fn check_files(engine: &crate::config::Engine) -> anyhow::Result<()> {
    if let EngineAt::Temporal { address, namespace } = engine.at()? {
        server(&engine.temporal, address, namespace, String::new())?;
    }
    Ok(())
}

fn codec(temporal: &Temporal) -> anyhow::Result<Option<CodecKeys>> {
    let wrong = |error| anyhow::anyhow!("engine.temporal.codec_keys: {error}");
    let mut keys = vec![];
    for key in &temporal.codec_keys {
        let value = key.key.value().map_err(wrong)?;
        keys.push((key.name.clone(), value));
    }
    CodecKeys::parse(&keys).map_err(wrong)
}

fn tls(temporal: &Temporal) -> anyhow::Result<Tls> {
    let read = |key: &str, path: &Option<std::path::PathBuf>| {
        let path = path.as_deref();
        path.map(|path| pem(key, path)).transpose()
    };
    let certificate = read("client_certificate", &temporal.client_certificate)?;
    let key = read("client_key", &temporal.client_key)?;
    Ok(Tls {
        root_certificates: read("root_certificates", &temporal.root_certificates)?,
        server_name: temporal.server_name.clone(),
        client: certificate.zip(key),
    })
}

fn pem(key: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    let (place, shown) = (format!("engine.temporal.{key}"), path.display());
    let text = std::fs::read(path).with_context(|| format!("{place}: {shown} cannot be read"))?;
    let is_pem = text.windows(PEM.len()).any(|part| part == PEM);
    ensure!(is_pem, "{place}: {shown} is not PEM");
    Ok(text)
}

impl std::fmt::Debug for RunningEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Embedded(engine) => engine.fmt(f),
            Self::Temporal(service) => service.fmt(f),
        }
    }
}

/// What keeps the schedules of the dispatchers, where there are any.
pub(crate) fn keeper(engine: &RunningEngine, store: &Arc<dyn Store>) -> Option<Keeper> {
    match engine {
        RunningEngine::Embedded(_) => None,
        RunningEngine::Temporal(service) => Some(Keeper {
            store: Arc::clone(store),
            schedules: service.schedules(),
            queues: service.task_queues(),
        }),
    }
}
