//! Who is there: every process shows itself once a second and looks who else does. Ages are by this
//! process's own clock, since it last saw a change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::gauge;
use rust_decimal::prelude::ToPrimitive;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tollgate_config::Config;
use tollgate_core::leadership::{BEAT_EVERY, ProcessId};
use tollgate_core::ports::{Leadership, NodeLine, Nodes, Showing, StoreResult};
use tollgate_dispatch::Every;
use tollgate_operations::nodes::{NodeView, NodesSeen, Role};

/// The leader forgets a process that has not shown itself for this long.
const FORGET_AFTER: Duration = Duration::from_mins(10);
/// A process that ends takes so long at most to say so.
const LEAVE_WITHIN: Duration = Duration::from_millis(500);

pub(super) struct Presence {
    among: Option<Arc<dyn Leadership>>,
    role: watch::Receiver<Role>,
    showing: Showing,
    nodes: watch::Sender<NodesSeen>,
    /// Whether a standby is wanted at all.
    stands_by: bool,
    beats: BTreeMap<ProcessId, (i64, Instant)>,
}

impl Presence {
    pub(super) fn new(
        config: &Config,
        among: Option<Arc<dyn Leadership>>,
        role: watch::Receiver<Role>,
    ) -> Self {
        let showing = Showing {
            name: name(),
            address: config.listen.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            cannot_lead: String::new(),
        };
        let this = NodeView {
            showing: showing.clone(),
            leads: among.is_none(),
            is_this: true,
            seen_at: Instant::now(),
        };
        let nodes = watch::channel(NodesSeen {
            epoch: None,
            nodes: vec![this],
        });
        Self {
            among,
            role,
            showing,
            nodes: nodes.0,
            stands_by: config.store.leadership == tollgate_config::Leadership::Standby,
            beats: BTreeMap::new(),
        }
    }

    pub(super) fn nodes(&self) -> watch::Receiver<NodesSeen> {
        self.nodes.subscribe()
    }

    pub(super) async fn run(mut self, stop: watch::Receiver<bool>) {
        let Some(among) = self.among.clone() else {
            return;
        };
        let mut every = Every::new(BEAT_EVERY, stop);
        while every.once(self.show_and_look(&*among)).await {}
        // Whoever looks sees it gone at once, not silent.
        let _ = timeout(LEAVE_WITHIN, among.leave()).await;
    }

    async fn show_and_look(&mut self, among: &dyn Leadership) {
        let cannot_lead = match &*self.role.borrow() {
            Role::Standby(Some(why)) => why.clone(),
            Role::Standby(None) | Role::Leader(_) => String::new(),
        };
        self.showing.cannot_lead = cannot_lead;
        // A store that is away is told by everybody else.
        if let Ok(nodes) = self.exchange(among).await {
            let seen = self.seen(among.process(), nodes);
            self.measure(&seen);
            self.nodes.send_replace(seen);
        }
    }

    async fn exchange(&self, among: &dyn Leadership) -> StoreResult<Nodes> {
        among.show(&self.showing).await?;
        let nodes = among.look().await?;
        if matches!(&*self.role.borrow(), Role::Leader(_)) {
            let silent = nodes
                .processes
                .iter()
                .filter_map(|line| self.long_silent(line));
            let silent: Vec<_> = silent.collect();
            if !silent.is_empty() {
                among.forget(silent).await?;
            }
        }
        Ok(nodes)
    }

    fn long_silent(&self, line: &NodeLine) -> Option<(ProcessId, i64)> {
        let (beat, at) = self.beats.get(&line.process)?;
        (*beat == line.beat && at.elapsed() >= FORGET_AFTER).then_some((line.process, line.beat))
    }

    fn seen(&mut self, this: ProcessId, nodes: Nodes) -> NodesSeen {
        let now = Instant::now();
        let known: Vec<ProcessId> = nodes.processes.iter().map(|line| line.process).collect();
        self.beats.retain(|process, _| known.contains(process));
        let views = nodes.processes.into_iter().map(|line| {
            let beat = self.beats.entry(line.process).or_insert((line.beat, now));
            if beat.0 != line.beat {
                *beat = (line.beat, now);
            }
            NodeView {
                showing: line.showing,
                leads: nodes.seen.leader == Some(line.process),
                is_this: line.process == this,
                seen_at: beat.1,
            }
        });
        NodesSeen {
            nodes: views.collect(),
            epoch: Some(nodes.seen.epoch.0),
        }
    }

    fn measure(&self, seen: &NodesSeen) {
        let leads = matches!(&*self.role.borrow(), Role::Leader(_));
        gauge!("tollgate_leader").set(f64::from(u8::from(leads)));
        if !self.stands_by {
            return;
        }
        gauge!("tollgate_standbys").set(seen.standbys().to_f64().unwrap_or(0.0));
    }
}

/// The machine's name and the number of the process, for people.
fn name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "unknown" } else { host };
    format!("{host}/{}", std::process::id())
}
