//! W4: assignments to one instant through `admit`, as few and as small fields as an item may have,
//! so that the slot is what costs.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tollgate_core::Timestamp;
use tollgate_core::id::{FlowId, ItemId};
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{NewItem, NewRecord, Queue};

use super::intake::admit;
use super::target;
use crate::sample::Sample;
use crate::stopwatch::{Lap, Progress};

/// The instant that everybody wants: 2040-06-01, far enough to be ahead of every run.
const INSTANT_SECS: i64 = 2_222_121_600;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) count: u32,
    pub(crate) batch: u32,
    /// Batches in flight.
    pub(crate) at_once: u32,
}

impl Load {
    /// To have so many slots, as fast as may be.
    pub(crate) fn filling(count: u32) -> Self {
        Self {
            count,
            batch: super::BATCH,
            at_once: 4,
        }
    }
}

pub(super) async fn measure(dir: &Path, load: Load) -> Result<Sample> {
    let store = target::open_store(dir).await?;
    let commits_before = target::commits(dir)?;
    // Held until the commits are counted: closing the database removes their count.
    let sample = ask_for_all(Arc::clone(&store) as _, load).await?;
    let commits = target::commits(dir)? - commits_before;
    drop(store);
    target::check_rows(dir, "SELECT sum(used) FROM lane_window", load.count)?;
    Ok(Sample {
        commits: Some(commits),
        ..sample
    })
}

/// The same on every store.
pub(crate) async fn ask_for_all(store: Arc<dyn Queue>, load: Load) -> Result<Sample> {
    let lap = Lap::begin()?;
    let shared = Arc::new(Shared {
        progress: Progress::begin(load.count),
        next: AtomicU32::new(0),
        load,
    });
    let mut askers = JoinSet::new();
    for _ in 0..load.at_once {
        askers.spawn(ask(Arc::clone(&store), Arc::clone(&shared)));
    }
    while let Some(asked) = askers.join_next().await {
        asked??;
    }
    let (last_over_first, sample) = (shared.progress.last_over_first(), lap.sample(load.count)?);
    Ok(Sample {
        last_over_first,
        ..sample
    })
}

struct Shared {
    progress: Progress,
    /// The first number that nobody has taken.
    next: AtomicU32,
    load: Load,
}

/// Asks for one batch after the other, until all numbers are taken.
async fn ask(store: Arc<dyn Queue>, shared: Arc<Shared>) -> Result<()> {
    let Load { count, batch, .. } = shared.load;
    loop {
        let start = shared.next.fetch_add(batch, Ordering::SeqCst);
        if start >= count {
            return Ok(());
        }
        let items = items(start..(start + batch).min(count))?;
        shared.progress.add(admit(Arc::clone(&store), items).await?);
    }
}

pub(crate) fn items(numbers: Range<u32>) -> Result<Vec<NewItem>> {
    let requested = Timestamp::from_second(INSTANT_SECS)?;
    let money = Money {
        minor: 100,
        currency: Currency::from_code("EUR").context("the euro is a currency")?,
    };
    let item = |number: u32| {
        let id = ItemId::new(format!("slot-{number:010}"));
        let record = NewRecord::new("bench", "SCHEDULED", money, "same".to_owned());
        let flow = FlowId::new("init-bench");
        NewItem {
            requested: Some(requested),
            ..NewItem::new(id, target::lane_name(), record, "{}", flow)
        }
    };
    Ok(numbers.map(item).collect())
}
