//! Stands in for the Temporal engine in a build without the feature `temporal`: none of it can be made, and a
//! configuration that asks for it is refused.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::bail;
use tokio::sync::watch;
use tollgate_config::{Config, Engine as EngineConfig, EngineAt};
use tollgate_core::ports::{Engine, Store};

use crate::engines::{FlowServices, RunningEngine};

const NOT_BUILT: &str = "engine.url: this build has no Temporal engine; use a release, or build with the feature \"temporal\"";

#[derive(Debug, Clone)]
pub(crate) struct Reach(Infallible);

impl Reach {
    pub(crate) fn trouble(&self) -> Option<String> {
        match self.0 {}
    }
}

#[derive(Debug, Clone)]
pub(crate) struct TaskQueues(Infallible);

impl TaskQueues {
    pub(crate) async fn workers(&self, _: &str) -> Result<usize, String> {
        match self.0 {}
    }
}

#[derive(Debug)]
pub(crate) struct TemporalService(Infallible);

impl TemporalService {
    pub(crate) fn engine(&self) -> Arc<dyn Engine> {
        match self.0 {}
    }
    pub(crate) fn reach(&self) -> Reach {
        match self.0 {}
    }
    pub(crate) fn task_queues(&self) -> TaskQueues {
        match self.0 {}
    }
    pub(crate) async fn shutdown(self) {
        match self.0 {}
    }
}

pub(crate) struct Keeper(Infallible);

impl Keeper {
    pub(crate) async fn run(self, _: watch::Receiver<bool>) {
        match self.0 {}
    }
}

pub(crate) fn keeper(_: &RunningEngine, _: &Arc<dyn Store>) -> Option<Keeper> {
    None
}

pub(crate) async fn start_temporal(
    _: &Config,
    _: &FlowServices,
    _: (String, String),
    _: &watch::Receiver<bool>,
) -> anyhow::Result<RunningEngine> {
    bail!(NOT_BUILT)
}

pub(crate) fn check_files(engine: &EngineConfig) -> anyhow::Result<()> {
    match engine.at()? {
        EngineAt::Embedded => Ok(()),
        EngineAt::Temporal { .. } => bail!(NOT_BUILT),
    }
}
