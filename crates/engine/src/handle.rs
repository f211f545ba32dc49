//! The cheap handle that everybody else holds: starts flows and looks at them, from any thread.
//! It runs nothing and does not keep the engine alive.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{Engine, FlowView, Start, Started, Unreachable};

use crate::registry::no_flow_named;
use crate::rows::{self, unreachable};
use crate::shared::{Shared, Stop};

#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Waits until the engine no longer runs flows, and says why.
    pub async fn stopped(&self) -> Stop {
        self.shared.stopped().await
    }

    /// Whether it has stopped, for whatever reason.
    pub fn has_stopped(&self) -> bool {
        self.shared.stop_reason().is_some()
    }

    /// Another process has written flows that are due.
    pub fn wake(&self) {
        self.shared.due_in(Duration::ZERO);
    }

    async fn write(&self, flows: Vec<Start>) -> Result<Vec<Started>, Unreachable> {
        let soonest = flows.iter().map(|flow| flow.delay).min();
        let started = rows::start(&*self.shared.flows, flows).await?;
        if let Some(delay) = soonest.filter(|_| started.contains(&Started::New)) {
            self.shared.due_in(delay);
        }
        Ok(started)
    }
}

#[async_trait]
impl Engine for Handle {
    async fn start(&self, flows: Vec<Start>) -> Result<Vec<Started>, Unreachable> {
        if self.shared.stop_reason().is_some() {
            return Err(Unreachable("it has stopped".to_owned()));
        }
        let is_known = |flow: &Start| self.shared.registry.flow(&flow.name).is_some();
        let unknown = |flow: &Start| (!is_known(flow)).then(|| no_flow_named(&flow.name));
        let refusals: Vec<Option<String>> = flows.iter().map(unknown).collect();
        let known: Vec<Start> = flows.into_iter().filter(is_known).collect();

        let written = self.write(known).await?;
        let mut written = written.into_iter();
        let answer = |refusal| match refusal {
            Some(why) => Started::Failed(why),
            None => written
                .next()
                .unwrap_or_else(|| Started::Failed("bug in the store: too few answers".to_owned())),
        };
        Ok(refusals.into_iter().map(answer).collect())
    }

    async fn view(&self, id: &FlowId, wait: Duration) -> Result<FlowView, Unreachable> {
        let shared = &self.shared;
        // Watching begins before the row is read: an end in between is told.
        let watch = if wait.is_zero() || shared.stop_reason().is_some() {
            None
        } else {
            shared.watchers.try_watch(id, shared.options.max_watchers)
        };
        let view = self.read(id).await?;
        let (FlowView::Running { .. }, Some(mut watch)) = (&view, watch) else {
            return Ok(view);
        };
        match tokio::time::timeout(wait, watch.ended()).await {
            Ok(Some(ended)) => Ok(ended),
            Ok(None) | Err(_) => self.read(id).await,
        }
    }
}

impl Handle {
    async fn read(&self, id: &FlowId) -> Result<FlowView, Unreachable> {
        self.shared
            .flows
            .flow(id)
            .await
            .map_err(|error| unreachable(&error))
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut handle = f.debug_struct("Handle");
        handle
            .field("epoch", &self.shared.epoch)
            .field("stop", &self.shared.stop_reason());
        handle.finish_non_exhaustive()
    }
}
