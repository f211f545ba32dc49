//! One term as leader: the engine, the gate, and everything that only one process may do at a time. Each
//! term has its own of all of these, on a store that is fenced with it, so that nothing of a term that is
//! over can pass for the next one, also in the same process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_core::id::Epoch;
use tollgate_core::ports::Term;
use tollgate_dispatch::{Gate, Wake};
use tollgate_engine::{EmbeddedEngine, Handle, Stop};

use super::Basis;
use crate::assemble::Downstreams;
use crate::engines;
use crate::services::Services;

/// A handover waits so long for answers to what was sent. What has none by then is in doubt, as after
/// a crash, until its answer comes or it is asked about.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// Services that do not end by then are cut off, as by a crash.
const SERVICES_END_WITHIN: Duration = Duration::from_millis(500);

pub(crate) struct RunningTerm {
    pub(crate) epoch: Epoch,
    engine: EmbeddedEngine,
    gate: Arc<Gate>,
    services: JoinSet<()>,
    stop: watch::Sender<bool>,
    /// Files to be taken in.
    fed: Wake,
}

impl RunningTerm {
    pub(crate) async fn begin(basis: &Basis, term: Term) -> anyhow::Result<Self> {
        let Term { epoch, store } = term;
        let config = &basis.config;
        let downstreams = Downstreams::connect(config)?;
        let billing = Arc::new(downstreams.billing(&store));
        let worlds = downstreams
            .worlds(config, &store, Some(&basis.kept))
            .await?;
        let engine = engines::ready(config, &worlds)?.run(Arc::clone(&store) as _, epoch)?;
        let (stop, stopped) = watch::channel(false);
        let fed = Wake::default();
        let services = Services {
            config,
            store: &store,
            engine: Arc::new(engine.handle()),
            billing,
            fed: &fed,
            gate: &worlds.gate,
        };
        let mut running = JoinSet::new();
        services
            .dispatch(&stopped, &mut running)
            .await
            .context("the dispatcher cannot start")?;
        services.intake(&stopped, &mut running);
        running.spawn(Arc::clone(&worlds.gate).watch_clock(stopped));
        Ok(Self {
            epoch,
            engine,
            gate: Arc::clone(&worlds.gate),
            services: running,
            stop,
            fed,
        })
    }

    pub(crate) fn handle(&self) -> Handle {
        self.engine.handle()
    }

    /// Another process has written flows, or a file.
    pub(crate) fn wake(&self) {
        self.engine.handle().wake();
        self.fed.wake();
    }

    /// Resolves when flows no longer run.
    pub(crate) async fn stopped(&self) -> Stop {
        self.engine.handle().stopped().await
    }

    /// No further turn, no further step; waits until what was sent is answered and the answers are written.
    pub(crate) async fn quiesce(&mut self) {
        self.cease("this process is handing over");
        self.engine.stop();
        let services = &mut self.services;
        let ended = async { while services.join_next().await.is_some() {} };
        // Side by side, so that a slow service does not add to a slow bank.
        let (ended, answered) = tokio::join!(
            timeout(SERVICES_END_WITHIN, ended),
            timeout(ANSWERS_WITHIN, self.gate.idle())
        );
        if ended.is_err() {
            self.services.abort_all();
        }
        if answered.is_err() {
            let unanswered = self.gate.count_under_way();
            tracing::warn!(
                unanswered,
                "handing over before all answers have arrived; the next leader handles the open sends"
            );
        }
    }

    /// Sends nothing more, from this moment on.
    pub(crate) fn cease(&self, why: &str) {
        self.gate.fence(why);
        let _ = self.stop.send(true);
    }

    /// Gives what still runs the time to end.
    pub(crate) async fn end(mut self) {
        self.services.shutdown().await;
        self.engine.shutdown().await;
    }
}
