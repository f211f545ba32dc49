//! Leader or standby: which of the two this process is, and the change from one to the other.
//!
//! A standby looks for the leader's beats and takes over when that one resigns or falls silent (the rule is
//! in `tollgate_core::leadership`). The store decides: a takeover compares what was seen and sets the next
//! epoch, so of two standbys one wins, and everything the old leader still tries is refused.

mod presence;
mod process;
mod settings;
mod term;

use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tollgate_config::Config;
use tollgate_core::ports::{Call, Engine, Leadership, Store};
use tollgate_dispatch::Wake;
use tollgate_engine::{Standby, Switch};
use tollgate_operations::nodes::{Nodes, NodesSeen, Role};

use crate::assemble::Kept;
use presence::Presence;
use process::Process;

/// So many calls may wait; more of them would say nothing new.
const MOST_CALLS: usize = 16;

/// What every term of this process begins with.
pub(crate) struct Basis {
    pub(crate) config: Config,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) kept: Kept,
    /// Woken by uploads at this process.
    pub(crate) fed: Wake,
}

/// Why this process leads no more and must end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Fenced(String),
    Died(String),
}

/// The embedded engine, on this process or on another.
pub(crate) struct Leading {
    switch: Switch,
    role: watch::Receiver<Role>,
    nodes: watch::Receiver<NodesSeen>,
    end: watch::Receiver<Option<End>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    /// What goes on until nothing is served any more.
    beside: JoinSet<()>,
    stop_beside: watch::Sender<bool>,
}

impl std::fmt::Debug for Leading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Leading")
            .field(&*self.role.borrow())
            .finish()
    }
}

impl Leading {
    /// Leads before it returns, if nobody else does.
    pub(crate) async fn start(
        basis: Basis,
        among: Option<Arc<dyn Leadership>>,
    ) -> anyhow::Result<Self> {
        let others = among.as_ref().map(|among| {
            let flows = Arc::clone(&basis.store) as _;
            Standby::new(flows, Arc::clone(among))
        });
        let switch = Switch::new(others.clone());
        let (role, role_seen) = watch::channel(Role::Standby(None));
        let (end, end_seen) = watch::channel(None);
        let (stop, stopped) = watch::channel(false);
        let (stop_beside, beside_stopped) = watch::channel(false);
        let mut beside = JoinSet::new();
        let (heard, calls) = mpsc::channel(MOST_CALLS);
        if let (Some(others), Some(among)) = (others, &among) {
            beside.spawn(others.run(beside_stopped.clone()));
            beside.spawn(listen(Arc::clone(among), heard, beside_stopped.clone()));
        }
        let presence = Presence::new(&basis.config, among.clone(), role_seen.clone());
        let nodes = presence.nodes();
        beside.spawn(presence.run(beside_stopped));
        let mut process = Process::new(basis, among, switch.clone(), role, calls);
        let first = process.first_term().await?;
        let task = tokio::spawn(async move {
            if let Some(why) = process.run(first, stopped).await {
                let _ = end.send(Some(why));
            }
        });
        Ok(Self {
            switch,
            role: role_seen,
            nodes,
            end: end_seen,
            stop,
            task,
            beside,
            stop_beside,
        })
    }

    pub(crate) fn engine(&self) -> Arc<dyn Engine> {
        Arc::new(self.switch.clone())
    }

    pub(crate) fn nodes(&self) -> Nodes {
        Nodes::new(self.role.clone(), self.nodes.clone())
    }

    /// Resolves when this process must end.
    pub(crate) async fn ended(&self) {
        // Gone without a word is the end of a process that was told to stop.
        if self.end.clone().wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn end(&self) -> Option<End> {
        self.end.borrow().clone()
    }

    /// Leads no more, if there is anybody to hand over to, while the API is still served. Who is alone
    /// goes on until nothing is served any more.
    pub(crate) fn hand_over(&self) {
        if self.nodes.borrow().has_standby() {
            let _ = self.stop.send(true);
        }
    }

    pub(crate) async fn shutdown(mut self) {
        let _ = self.stop.send(true);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "bug: leading ended by itself");
        }
        let _ = self.stop_beside.send(true);
        while self.beside.join_next().await.is_some() {}
    }
}

/// In a task of its own: connecting may take longer than whoever waits for a call does.
async fn listen(
    among: Arc<dyn Leadership>,
    heard: mpsc::Sender<Call>,
    mut stop: watch::Receiver<bool>,
) {
    let listening = async {
        loop {
            let _ = heard.try_send(among.called().await);
        }
    };
    tokio::select! {
        () = listening => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}
