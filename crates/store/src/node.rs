//! Under which epoch this process works on its store. It knows no SQL: whoever reads the epoch in
//! force asks it for a verdict.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tollgate_core::id::Epoch;
use tollgate_core::ports::{StoreError, StoreResult};

/// No epoch in force is as low as this: taking a node over raises it to 1 at least.
const NONE: i64 = 0;

/// The epoch of this process: none until its engine has taken the store over, and none for ever
/// where flows run on Temporal and any number of processes share the store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node(Arc<AtomicI64>);

impl Node {
    pub(crate) fn took_over(&self, epoch: Epoch) {
        self.0.store(epoch.0, Ordering::Release);
    }

    pub(crate) fn epoch(&self) -> Option<Epoch> {
        let epoch = self.0.load(Ordering::Acquire);
        (epoch != NONE).then_some(Epoch(epoch))
    }
}

/// A node that was taken over from writes nothing more.
pub(crate) fn check(ours: Epoch, in_force: i64) -> StoreResult<()> {
    if in_force == ours.0 {
        return Ok(());
    }
    Err(StoreError::Fenced(format!(
        "this node's epoch is {}, the store's is {in_force}",
        ours.0
    )))
}
