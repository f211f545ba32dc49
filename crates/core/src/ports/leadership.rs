//! One leader and any number of standbys on one store, for the embedded engine. Only a store that several
//! processes can open at a time has it: PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;

use super::{FlowView, Store, StoreResult};
use crate::id::{Epoch, FlowId};
use crate::leadership::{ProcessId, Seen};

#[async_trait]
pub trait Leadership: Send + Sync {
    /// This process, on this store; no other has had the number.
    fn process(&self) -> ProcessId;

    async fn look(&self) -> StoreResult<Nodes>;

    /// Shows that this process lives, and as what.
    async fn show(&self, as_what: &Showing) -> StoreResult<()>;

    /// This process is about to end, and is shown no more.
    async fn leave(&self) -> StoreResult<()>;

    /// Forgets processes that have not shown themselves since their beats were these.
    async fn forget(&self, silent: Vec<(ProcessId, i64)>) -> StoreResult<()>;

    /// Takes the store over as [`super::Flows::take_node`] does, from exactly this state; from any
    /// state where none is given. Nothing if the state is another by now: somebody else was quicker,
    /// or the leader lives. An answer that was lost may have raised the epoch: then this process is
    /// shown as a leader that does not beat.
    async fn lead(&self, seen: Option<Seen>, settings: &str) -> StoreResult<Option<Term>>;

    /// The leader of this epoch lives. `Fenced` once another has taken over.
    async fn beat(&self, epoch: Epoch) -> StoreResult<()>;

    /// The leader of this epoch hands over: its epoch is over, nobody leads, and everybody who listens
    /// is called. Changes nothing once another has taken over.
    async fn resign(&self, epoch: Epoch) -> StoreResult<()>;

    /// Calls every process that listens: there is something to do.
    async fn call(&self, call: Call) -> StoreResult<()>;

    /// Waits for the next call to this process. Calls of one kind that come together may be heard as one,
    /// and calls may be lost while the connection is down: [`Call::Anything`] follows then.
    async fn called(&self) -> Call;

    /// Those of the flows that have ended, and how.
    async fn ended_flows(&self, ids: Vec<FlowId>) -> StoreResult<Vec<(FlowId, FlowView)>>;
}

/// One term of one leader: everything done through its store is done under its epoch, and refused
/// once it is over, also if the same process leads again.
pub struct Term {
    pub epoch: Epoch,
    pub store: Arc<dyn Store>,
}

impl std::fmt::Debug for Term {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Term").field(&self.epoch).finish()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Flows were written that are due.
    Flows,
    /// A file was uploaded.
    Uploads,
    /// The leader has resigned.
    Leadership,
    /// Calls may have been missed.
    Anything,
}

impl Call {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::Uploads => "uploads",
            Self::Leadership => "leadership",
            Self::Anything => "anything",
        }
    }

    /// What another release may call is taken for anything.
    pub fn parse(text: &str) -> Self {
        [Self::Flows, Self::Uploads, Self::Leadership]
            .into_iter()
            .find(|call| call.as_str() == text)
            .unwrap_or(Self::Anything)
    }
}

/// Everybody on the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    pub seen: Seen,
    /// Of the leader, or of the last one.
    pub settings: String,
    pub processes: Vec<NodeLine>,
}

/// What a process shows of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Showing {
    /// Host and process number, for people.
    pub name: String,
    /// Where its API is served.
    pub address: String,
    pub version: String,
    /// Why it cannot lead; empty if it can.
    pub cannot_lead: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeLine {
    pub process: ProcessId,
    /// Raised each time it shows itself.
    pub beat: i64,
    pub showing: Showing,
}
