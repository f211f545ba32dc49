//! Closes a gate for good: once another node has taken over, or is about to, this one sends nothing more.

use tokio::sync::watch;

/// Open until [`Fence::close`] is called, and never open again.
#[derive(Debug)]
pub(crate) struct Fence(watch::Sender<Option<String>>);

impl Default for Fence {
    fn default() -> Self {
        Self(watch::channel(None).0)
    }
}

impl Fence {
    /// Wakes everyone who waits for it. The first reason stays.
    pub(crate) fn close(&self, why: &str) {
        self.0.send_if_modified(|closed| {
            let is_first = closed.is_none();
            if is_first {
                *closed = Some(why.to_owned());
            }
            is_first
        });
    }

    /// Why this node may send nothing more, once it may not.
    pub(crate) fn why(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits until it is closed; the reason.
    pub(crate) async fn closed(&self) -> String {
        let mut closed = self.0.subscribe();
        // The sender is ours and lives as long as this borrow of it.
        let why = closed.wait_for(Option::is_some).await;
        why.ok().and_then(|why| why.clone()).unwrap_or_default()
    }
}
