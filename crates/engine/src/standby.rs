//! The engine as a standby has it: it writes flows and waits for their ends, and another process runs them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, watch};
use tollgate_core::id::FlowId;
use tollgate_core::ports::{
    Call, Engine, FlowView, Flows, Leadership, Start, Started, StoreResult, Unreachable,
};
use tollgate_core::retry;

use crate::rows::{self, unreachable};
use crate::watchers::Watchers;

/// How often the store is asked which of the flows that are waited for have ended, by one question for all.
const ASK_EVERY: Duration = Duration::from_millis(20);
/// So many flows are asked about at once.
const MOST_ASKED: usize = 1024;
/// So many flows are waited for at once; who waits for one more is answered without waiting.
const MOST_WAITED: usize = 65_536;
const TRIES: retry::Policy = retry::Policy {
    max_attempts: u32::MAX,
    first_pause: Duration::from_millis(50),
    factor: retry::TWICE,
    longest_pause: Duration::from_secs(1),
};

#[derive(Clone)]
pub struct Standby {
    flows: Arc<dyn Flows>,
    leadership: Arc<dyn Leadership>,
    watchers: Arc<Watchers>,
    /// Somebody waits for a flow.
    waited: Arc<Notify>,
    /// Flows were written that the leader does not know of.
    written: Arc<Notify>,
}

impl fmt::Debug for Standby {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standby").finish_non_exhaustive()
    }
}

impl Standby {
    pub fn new(flows: Arc<dyn Flows>, leadership: Arc<dyn Leadership>) -> Self {
        Self {
            flows,
            leadership,
            watchers: Arc::default(),
            waited: Arc::default(),
            written: Arc::default(),
        }
    }

    /// Calls the leader and looks for ends, until told to stop.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = self.call() => {}
            () = self.look_for_ends() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    /// One call at a time: what is written meanwhile is part of the next.
    async fn call(&self) {
        loop {
            self.written.notified().await;
            if let Err(error) = self.leadership.call(Call::Flows).await {
                tracing::debug!(%error, "the leader could not be notified; it finds the flow by itself");
            }
        }
    }

    async fn look_for_ends(&self) {
        let mut failures = 0;
        loop {
            let waited_for = self.watchers.watched();
            if waited_for.is_empty() {
                self.waited.notified().await;
                continue;
            }
            let pause = match self.ask_about(&waited_for).await {
                Ok(()) => {
                    failures = 0;
                    ASK_EVERY
                }
                Err(_) => {
                    failures += 1;
                    TRIES.pause_after(failures)
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn ask_about(&self, waited_for: &[FlowId]) -> StoreResult<()> {
        for some in waited_for.chunks(MOST_ASKED) {
            for (id, view) in self.leadership.ended_flows(some.to_vec()).await? {
                self.watchers.tell(&id, || view);
            }
        }
        Ok(())
    }

    async fn read(&self, id: &FlowId) -> Result<FlowView, Unreachable> {
        let read = self.flows.flow(id).await;
        read.map_err(|error| unreachable(&error))
    }
}

#[async_trait]
impl Engine for Standby {
    /// Whether a flow of that name exists is for the leader to find out.
    async fn start(&self, flows: Vec<Start>) -> Result<Vec<Started>, Unreachable> {
        let started = rows::start(&*self.flows, flows).await?;
        if started.contains(&Started::New) {
            self.written.notify_one();
        }
        Ok(started)
    }

    async fn view(&self, id: &FlowId, wait: Duration) -> Result<FlowView, Unreachable> {
        let watch = (!wait.is_zero())
            .then(|| self.watchers.try_watch(id, MOST_WAITED))
            .flatten();
        let view = self.read(id).await?;
        let (FlowView::Running { .. }, Some(mut watch)) = (&view, watch) else {
            return Ok(view);
        };
        self.waited.notify_one();
        match tokio::time::timeout(wait, watch.ended()).await {
            Ok(Some(ended)) => Ok(ended),
            Ok(None) | Err(_) => self.read(id).await,
        }
    }
}
