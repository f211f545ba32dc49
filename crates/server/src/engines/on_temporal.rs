//! The Temporal engine of this process: its server, the workers of its roles, and the keeper of its schedules.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::future::BoxFuture;
use tokio::sync::watch;
use tollgate_config::{Config, EngineAt, Role, Temporal, WorkerSize};
use tollgate_core::id::ItemType;
use tollgate_core::ports::{Engine, Store};
use tollgate_dispatch::{DISPATCH_TASK_QUEUE, Dispatcher, Dispatchers};
use tollgate_domains::{payments, status_checks};
use tollgate_operations::item_types;
use tollgate_temporal::{CodecKeys, Registered, Server, Size, TemporalService, Tls, WantedWorkers};

use crate::assemble::register;
use crate::engines::dispatch_schedules::Keeper;
use crate::engines::{FlowServices, RunningEngine, dispatcher, exec_queues};

/// How everything in PEM begins.
const PEM: &[u8] = b"-----BEGIN ";

pub(crate) async fn start_temporal(
    config: &Config,
    worlds: &FlowServices,
    (address, namespace): (String, String),
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<RunningEngine> {
    let caller = caller(&*worlds.store).await?;
    let server = server(&config.engine.temporal, address, namespace, caller)?;
    let service = temporal(config, worlds, server, stopped).await?;
    Ok(RunningEngine::Temporal(service))
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

async fn temporal(
    config: &Config,
    worlds: &FlowServices,
    server: Server,
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<TemporalService> {
    let connected = TemporalService::connect(server).await;
    let mut service = connected.map_err(|error| anyhow::anyhow!("engine.url: {error}"))?;
    // Set once: a process connects once.
    let _ = worlds.status_checks.engine.set(service.engine());
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
    worlds: &FlowServices,
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
pub(crate) fn check_files(engine: &tollgate_config::Engine) -> anyhow::Result<()> {
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
