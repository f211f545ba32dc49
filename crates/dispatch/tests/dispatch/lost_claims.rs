//! An update that is guarded by a claim moves no row: nothing is changed, and the log says so.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::id::FlowId;
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{Engine, FlowView, Start, Started, Store, Unreachable};
use tollgate_dispatch::Dispatcher;

use crate::log::Log;
use crate::town::{Town, item_type};

/// While it starts flows, another node takes the store over and releases all claims.
struct Overtaken {
    store: Arc<dyn Store>,
    answers: bool,
}

#[async_trait]
impl Engine for Overtaken {
    async fn start(&self, flows: Vec<Start>) -> Result<Vec<Started>, Unreachable> {
        self.store.take_node().await.unwrap();
        if self.answers {
            Ok(flows.iter().map(|_| Started::New).collect())
        } else {
            Err(Unreachable("scripted".into()))
        }
    }

    async fn view(&self, _: &FlowId, _: Duration) -> Result<FlowView, Unreachable> {
        Ok(FlowView::NotFound)
    }
}

/// What a cycle logs of claims that are lost on the way.
async fn logged(answers: bool) -> Vec<String> {
    let town = Town::new(100).await;
    town.admit("a", "default", 2).await;
    let log = Log::start();
    let engine = Overtaken {
        store: Arc::clone(&town.store),
        answers,
    };
    let dispatcher = Dispatcher::new(item_type(), Arc::clone(&town.store), Arc::new(engine), 1);
    dispatcher.cycle().await.unwrap();
    let view = town.item("a0").await;
    assert_eq!(view.queue_status, QueueStatus::Ready, "nothing was changed");
    log.lines_with("claims were lost")
}

#[tokio::test]
async fn claims_that_are_lost_before_their_starts_are_recorded_are_logged() {
    for (answers, what) in [(true, "what=\"start\""), (false, "what=\"release\"")] {
        let lines = logged(answers).await;
        let [line] = lines.as_slice() else {
            panic!("not logged once: {lines:?}");
        };
        for part in ["WARN", "batch=BATCH-", "lost=2", what] {
            assert!(line.contains(part), "{line}");
        }
    }
}
