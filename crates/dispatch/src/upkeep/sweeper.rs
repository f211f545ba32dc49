//! The sweeper: finds DISPATCHED items that have no end and no flow, and starts them again.
//! Without it a start that was lost would be lost money. It also holds what must not run late.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_core::flow::BatchEnd;
use tollgate_core::id::{Item, ItemType};
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::join;
use tollgate_core::ports::{Engine, FlowView, Orphaned, Store, StoreError, StoreResult};
use tollgate_core::retry;

use crate::dispatching::item_types::item_type;
use crate::every::Every;

/// One sweep looks at this many items at most, the longest dispatched first.
const MAX_ITEMS: u32 = 1000;
/// What is late is held by so many in a transaction, so that a turn never waits for long behind one; and one sweep holds
/// no more than all of these. Thousands may share a deadline, and each is a person's matter from that moment on.
const HELD_AT_ONCE: u32 = 200;
const MOST_HELD: u64 = 100_000;
/// At most this many flows are asked about at once: one that nobody works on may take seconds to answer.
const AT_ONCE: usize = 16;

/// Before an item whose flow failed runs again.
const PAUSES: retry::Policy = retry::Policy {
    max_attempts: u32::MAX,
    first_pause: Duration::from_secs(5),
    factor: retry::FOUR_TIMES,
    longest_pause: Duration::from_mins(10),
};

/// What one sweep found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sweep {
    pub looked_at: u64,
    /// Had no flow at all: the start was lost. They are due again.
    pub lost: u64,
    /// Their flow had ended without ending the item: next run.
    pub restarted: u64,
    /// Would have run late and must not: they wait for a person now.
    pub held: u64,
}

pub struct Sweeper {
    item_type: ItemType,
    store: Arc<dyn Store>,
    engine: Arc<dyn Engine>,
}

impl std::fmt::Debug for Sweeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sweeper")
            .field("item_type", &self.item_type)
            .finish_non_exhaustive()
    }
}

impl Sweeper {
    pub fn new(item_type: ItemType, store: Arc<dyn Store>, engine: Arc<dyn Engine>) -> Self {
        Self {
            item_type,
            store,
            engine,
        }
    }

    /// Sweeps after every `pause` until told to stop.
    pub async fn run(self, pause: Duration, stop: watch::Receiver<bool>) {
        let mut every = Every::new(pause, stop);
        every.pause().await;
        while every.once(self.sweep_and_tell()).await {}
    }

    async fn sweep_and_tell(&self) {
        let item_type = &self.item_type;
        match self.sweep().await {
            Ok(sweep) if sweep.lost + sweep.restarted > 0 => {
                tracing::warn!(%item_type, ?sweep, "items were orphaned");
            }
            Ok(sweep) if sweep.held > 0 => {
                tracing::warn!(%item_type, held = sweep.held, "items are held: their deadline has passed");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%item_type, %error, "sweep failed"),
        }
    }

    pub async fn sweep(&self) -> StoreResult<Sweep> {
        let Some(found) = item_type(&*self.store, &self.item_type).await? else {
            return Ok(Sweep::default());
        };
        let config = found.config;
        let orphaned = self
            .store
            .orphaned(&self.item_type, config.stale_after(), MAX_ITEMS)
            .await?;
        let mut sweep = Sweep {
            looked_at: orphaned.len() as u64,
            ..Sweep::default()
        };
        let looks = orphaned.into_iter().map(|item| self.look_at(&config, item));
        for found in join::windowed(AT_ONCE, looks).await {
            match found? {
                Found::Nothing => {}
                Found::Lost => sweep.lost += 1,
                Found::Ended => sweep.restarted += 1,
            }
        }
        sweep.held = self.hold_late().await?;
        Ok(sweep)
    }

    async fn hold_late(&self) -> StoreResult<u64> {
        let mut held = 0;
        while held < MOST_HELD {
            let more = self.store.hold_late(&self.item_type, HELD_AT_ONCE).await?;
            held += more;
            if more < u64::from(HELD_AT_ONCE) {
                break;
            }
        }
        Ok(held)
    }

    /// What its flow has left behind. A flow of several items may have ended with a reason for this one.
    async fn look_at(&self, config: &ItemTypeConfig, orphaned: Orphaned) -> StoreResult<Found> {
        let item = Item::new(&self.item_type, &orphaned.id);
        let view = self
            .engine
            .view(&orphaned.flow, Duration::ZERO)
            .await
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let why = match view {
            FlowView::Running { .. } => return Ok(Found::Nothing),
            FlowView::NotFound => {
                let back = self
                    .store
                    .put_back(&item, orphaned.run, Duration::ZERO, LOST);
                return Ok(if back.await? {
                    Found::Lost
                } else {
                    Found::Nothing
                });
            }
            FlowView::Done { result_json } => ended_with(&result_json, &item),
            FlowView::Failed { error } => format!("its flow failed: {error}"),
        };
        let pause = PAUSES.pause_after(orphaned.retry_count + 1);
        let most = config.max_dispatch_retries;
        let restarted = self
            .store
            .restart_orphaned(&item, orphaned.run, &why, pause, most);
        let is_back = restarted.await?;
        Ok(if is_back {
            Found::Ended
        } else {
            Found::Nothing
        })
    }
}

const LOST: &str = "its flow was lost";

fn ended_with(result_json: &str, item: &Item) -> String {
    let end: Option<BatchEnd> = serde_json::from_str(result_json).ok();
    match end.as_ref().and_then(|end| end.failed.get(&item.id)) {
        Some(why) => format!("it could not be executed: {why}"),
        None => "its flow ended without ending it".to_owned(),
    }
}

/// What became of one item that was looked at.
enum Found {
    /// It runs, or somebody else has seen to it.
    Nothing,
    /// It had no flow, and is back in the queue.
    Lost,
    /// It has no flow that could end it, and is back in the queue or dead.
    Ended,
}
