//! Turns that were taken and not used. Whoever knows for certain that no byte went out says so in
//! the store; otherwise the next sender would find an open attempt and take it for Unknown.

use std::sync::Arc;

use tollgate_core::id::{AttemptId, Item};
use tollgate_core::outcome::{AttemptKind, Outcome};
use tollgate_core::ports::{Settlement, Store, StoreResult, Then};

use crate::gate::Ask;

/// An open attempt in whose turn nothing was sent, and nothing will be.
#[derive(Debug, Clone)]
pub(crate) struct Unused {
    pub(crate) attempt: AttemptId,
    pub(crate) item: Item,
    pub(crate) run: u32,
    pub(crate) kind: AttemptKind,
}

impl Unused {
    /// The item stays where it is. An attempt that someone has taken over meanwhile stays as it is.
    pub(crate) async fn settle(self, store: &dyn Store, why: &str) -> StoreResult<()> {
        let outcome = match self.kind {
            AttemptKind::Send => Outcome::retry(format!("not sent: {why}")),
            // `Retry` would claim that the downstream denies knowing the item.
            AttemptKind::Probe => Outcome::Unknown(format!("not asked: {why}")),
        };
        let settlement = Settlement {
            attempt: self.attempt,
            item: self.item,
            run: self.run,
            outcome,
            record: None,
            then: Then::Stay,
            disproves: false,
            close_lane: None,
            accounts: vec![],
        };
        store.settle(settlement).await.map(drop)
    }
}

/// A turn that is about to be used. Dropped before that, it is written down as unused.
pub(crate) struct UnlessUsed {
    store: Arc<dyn Store>,
    unused: Option<Unused>,
}

impl UnlessUsed {
    pub(crate) fn new(store: &Arc<dyn Store>, ask: &Ask, attempt: AttemptId) -> Self {
        let unused = Unused {
            attempt,
            item: ask.item.clone(),
            run: ask.run,
            kind: ask.kind,
        };
        Self {
            store: Arc::clone(store),
            unused: Some(unused),
        }
    }

    /// Whoever has it now says what became of it.
    pub(crate) fn forget(&mut self) {
        self.unused = None;
    }
}

impl Drop for UnlessUsed {
    fn drop(&mut self) {
        if let Some(unused) = self.unused.take() {
            settle_aside(&self.store, unused);
        }
    }
}

/// Nobody waits for it, and nothing depends on it: a store that is away is not asked again, and
/// the attempt is taken over as Unknown.
pub(crate) fn settle_aside(store: &Arc<dyn Store>, unused: Unused) {
    let store = Arc::clone(store);
    tokio::spawn(async move {
        let item = unused.item.clone();
        if let Err(error) = unused.settle(&*store, "the request was abandoned").await {
            tracing::warn!(%item, %error, "the attempt of an unused turn could not be closed");
        }
    });
}
