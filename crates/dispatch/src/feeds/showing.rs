//! Where partitions stand, shown to the broker's own tools. It is for people: nothing is read back, nothing waits for it, and
//! what goes wrong with it is a line in the log. Only the positions that the store has just confirmed are shown.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::task::AbortHandle;
use tollgate_core::ports::HeldPartition;

use super::{FeedRunner, Readers};

/// How often positions are shown that have not moved, in shares: brokers forget them after some days. Also how long
/// to wait after a refusal.
const SHOW_EVERY: u32 = 15;

#[derive(Default)]
pub(super) struct Shown {
    positions: Vec<(u32, i64)>,
    shares_ago: u32,
    task: Option<AbortHandle>,
}

impl FeedRunner {
    pub(super) fn show(self: &Arc<Self>, readers: &mut Readers, held: &[HeldPartition]) {
        let held = held.iter();
        let positions = held.filter_map(|held| Some((held.number, held.position?)));
        let positions: Vec<_> = positions.collect();
        let shown = &mut readers.shown;
        shown.shares_ago += 1;
        let is_news = positions != shown.positions && !self.is_hidden.load(Ordering::Relaxed);
        let is_due = is_news || shown.shares_ago >= SHOW_EVERY;
        let is_busy = shown.task.as_ref().is_some_and(|task| !task.is_finished());
        if positions.is_empty() || is_busy || !is_due {
            return;
        }
        shown.positions.clone_from(&positions);
        shown.shares_ago = 0;
        let runner = Arc::clone(self);
        let showing = async move { runner.show_now(&positions).await };
        shown.task = Some(readers.tasks.spawn(showing));
    }

    async fn show_now(&self, positions: &[(u32, i64)]) {
        let feed = &self.options.name;
        let shown = self.source.show_positions(positions).await;
        let was_hidden = self.is_hidden.swap(shown.is_err(), Ordering::Relaxed);
        match shown {
            Err(error) if !was_hidden => {
                tracing::warn!(feed, %error, "positions cannot be committed to the consumer group; records are still read");
            }
            Ok(()) if was_hidden => {
                tracing::info!(feed, "positions are committed to the consumer group again");
            }
            Ok(()) | Err(_) => {}
        }
    }
}
