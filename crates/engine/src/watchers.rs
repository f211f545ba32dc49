//! Who waits for which flow's end, in this process. It holds no state of flows: a watcher reads
//! the store after it has begun to watch, so that an end in between is not missed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tollgate_core::id::FlowId;
use tollgate_core::ports::FlowView;

type Ends = HashMap<FlowId, watch::Sender<Option<FlowView>>>;

#[derive(Default)]
pub(crate) struct Watchers {
    ends: Mutex<Ends>,
}

impl Watchers {
    pub(crate) fn watch(self: &Arc<Self>, id: &FlowId) -> Watch {
        let mut ends = self.lock();
        let sender = ends
            .entry(id.clone())
            .or_insert_with(|| watch::channel(None).0);
        Watch {
            id: id.clone(),
            end: sender.subscribe(),
            watchers: Arc::clone(self),
        }
    }

    /// Watches, unless `most` flows are being watched already.
    pub(crate) fn try_watch(self: &Arc<Self>, id: &FlowId, most: usize) -> Option<Watch> {
        let room = self.lock().len() < most;
        room.then(|| self.watch(id))
    }

    pub(crate) fn watched(&self) -> Vec<FlowId> {
        self.lock().keys().cloned().collect()
    }

    /// Tells all who wait for it, after the end is durable.
    pub(crate) fn tell(&self, id: &FlowId, view: impl FnOnce() -> FlowView) {
        let sender = self.lock().remove(id);
        if let Some(sender) = sender {
            sender.send_replace(Some(view()));
        }
    }

    /// Lets everybody go: nobody will be told any more.
    pub(crate) fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Ends> {
        // The map is whole after every line that holds the lock.
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Watch {
    id: FlowId,
    end: watch::Receiver<Option<FlowView>>,
    watchers: Arc<Watchers>,
}

impl Watch {
    /// The flow's end; `None` when nobody will tell any more.
    pub(crate) async fn ended(&mut self) -> Option<FlowView> {
        self.end.wait_for(Option::is_some).await.ok()?.clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut ends = self.watchers.lock();
        if self.end.has_changed().is_err() {
            // Told or let go: an entry of this name would be somebody else's.
            return;
        }
        // This watch still counts as one receiver; the last one clears the entry.
        let last = ends
            .get(&self.id)
            .is_some_and(|sender| sender.receiver_count() <= 1);
        if last {
            ends.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done() -> FlowView {
        FlowView::Done {
            result_json: "1".to_owned(),
        }
    }

    #[tokio::test]
    async fn every_watcher_is_told_and_none_is_left_behind() {
        let watchers = Arc::new(Watchers::default());
        let id = FlowId::new("a");
        let (mut first, mut second) = (watchers.watch(&id), watchers.watch(&id));
        drop(watchers.watch(&id));
        watchers.tell(&id, done);
        assert_eq!(first.ended().await, Some(done()));
        assert_eq!(second.ended().await, Some(done()));
        let mut later = watchers.watch(&id);
        drop((first, second));
        watchers.tell(&id, done);
        assert_eq!(later.ended().await, Some(done()));
        assert!(watchers.lock().is_empty());
    }

    #[tokio::test]
    async fn the_number_of_watched_flows_is_bounded() {
        let watchers = Arc::new(Watchers::default());
        let first = watchers.try_watch(&FlowId::new("a"), 1);
        assert!(watchers.try_watch(&FlowId::new("b"), 1).is_none());
        drop(first);
        assert!(watchers.try_watch(&FlowId::new("b"), 1).is_some());
    }

    #[tokio::test]
    async fn closing_lets_everybody_go() {
        let watchers = Arc::new(Watchers::default());
        let mut watch = watchers.watch(&FlowId::new("a"));
        watchers.close();
        assert_eq!(watch.ended().await, None);
    }
}
