//! Who leads and who else is there, as this process sees it. It only shows; leadership itself decides elsewhere.

use tokio::sync::watch;
use tokio::time::Instant;
use tollgate_core::id::Epoch;
use tollgate_core::leadership::SILENT_AFTER;
use tollgate_core::ports::Showing;

/// What this process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    Leader(Epoch),
    /// And why it cannot lead, if it cannot.
    Standby(Option<String>),
}

impl Role {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Leader(_) => "leader",
            Self::Standby(_) => "standby",
        }
    }

    /// Why it cannot take over.
    pub fn cannot_lead(self) -> Option<String> {
        match self {
            Self::Leader(_) => None,
            Self::Standby(why) => why,
        }
    }
}

/// Who leads, and who else is there.
#[derive(Debug, Clone)]
pub struct Nodes {
    role: watch::Receiver<Role>,
    seen: watch::Receiver<NodesSeen>,
}

impl Nodes {
    /// As leadership tells them.
    pub fn new(role: watch::Receiver<Role>, seen: watch::Receiver<NodesSeen>) -> Self {
        Self { role, seen }
    }

    pub fn role(&self) -> Role {
        self.role.borrow().clone()
    }

    pub fn seen(&self) -> NodesSeen {
        self.seen.borrow().clone()
    }
}

/// One process, as this one sees it.
#[derive(Debug, Clone)]
pub struct NodeView {
    pub showing: Showing,
    pub leads: bool,
    pub is_this: bool,
    /// When it was last seen to have shown itself.
    pub seen_at: Instant,
}

impl NodeView {
    fn stands_by(&self) -> bool {
        self.lives() && !self.leads && self.showing.cannot_lead.is_empty()
    }

    pub fn lives(&self) -> bool {
        self.is_this || self.seen_at.elapsed() < SILENT_AFTER
    }
}

#[derive(Debug, Clone, Default)]
pub struct NodesSeen {
    pub epoch: Option<i64>,
    pub nodes: Vec<NodeView>,
}

impl NodesSeen {
    /// How many processes would take over.
    pub fn standbys(&self) -> usize {
        self.nodes.iter().filter(|node| node.stands_by()).count()
    }

    /// Whether another process would take over.
    pub fn has_standby(&self) -> bool {
        self.nodes
            .iter()
            .any(|node| node.stands_by() && !node.is_this)
    }
}
