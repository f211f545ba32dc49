//! The engine of this process, embedded or Temporal, behind one face. `on_temporal.rs` and `dispatch_schedules.rs` are Temporal's
//! part, `without_temporal.rs` stands in for them in a build without it.

#[cfg(feature = "temporal")]
mod dispatch_schedules;
#[cfg(feature = "temporal")]
pub(crate) mod on_temporal;
#[cfg(test)]
#[cfg(feature = "temporal")]
mod replays;
#[cfg(not(feature = "temporal"))]
pub(crate) mod without_temporal;
#[cfg(not(feature = "temporal"))]
pub(crate) use without_temporal as on_temporal;

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use tollgate_config::Config;
use tollgate_core::id::ItemType;
use tollgate_core::ports::{Engine, Store};
use tollgate_dispatch::{Dispatcher, Gate};
use tollgate_domains::invoices::{ChecksInForce, Invoices};
use tollgate_domains::notifications::Notifications;
use tollgate_domains::payments::Payments;
use tollgate_domains::status_checks;
use tollgate_engine::{Builder, Options, Ready};
use tollgate_operations::item_types;
use tollgate_operations::nodes::Nodes;
use tollgate_operations::readiness::{Readiness, RemoteEngine};
#[cfg(feature = "temporal")]
use tollgate_temporal::{Reach, TaskQueues, TemporalService};

use crate::assemble::register;
#[cfg(not(feature = "temporal"))]
use crate::engines::without_temporal::{Reach, TaskQueues, TemporalService};
use crate::leadership::{End, Leading};

/// What flows and steps work with.
pub(crate) struct FlowServices {
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
    #[cfg_attr(
        not(feature = "temporal"),
        expect(dead_code, reason = "only Temporal uses it")
    )]
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
            Self::Embedded(_) => Readiness::new(None),
            Self::Temporal(service) => Readiness::new(Some(Arc::new(OnTemporal {
                reach: service.reach(),
                queues: service.task_queues(),
            }))),
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

/// Temporal, as the API asks about it.
#[derive(Debug)]
struct OnTemporal {
    reach: Reach,
    queues: TaskQueues,
}

#[async_trait]
impl RemoteEngine for OnTemporal {
    fn trouble(&self) -> Option<String> {
        self.reach.trouble()
    }

    async fn workers(&self, task_queue: &str) -> Result<usize, String> {
        let workers = self.queues.workers(task_queue).await;
        workers.map_err(|away| away.to_string())
    }
}

/// The embedded engine, with everything but its epoch.
pub(crate) fn ready(config: &Config, worlds: &FlowServices) -> anyhow::Result<Ready> {
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
#[cfg_attr(
    not(feature = "temporal"),
    expect(dead_code, reason = "only Temporal uses it")
)]
pub(crate) async fn exec_queues(store: &dyn Store) -> anyhow::Result<BTreeSet<String>> {
    let mut queues = BTreeSet::new();
    for (item_type, default) in item_types() {
        queues.extend(tollgate_dispatch::exec_task_queues(store, &item_type).await?);
        queues.insert(default.exec_task_queue);
    }
    queues.retain(|queue| !queue.is_empty());
    Ok(queues)
}

impl std::fmt::Debug for RunningEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Embedded(engine) => engine.fmt(f),
            Self::Temporal(service) => service.fmt(f),
        }
    }
}
