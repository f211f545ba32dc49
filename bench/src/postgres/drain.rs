//! W2 at store level: what the dispatcher and the last step of a flow ask of the store, with
//! nothing in between. Claim 500, record their starts, finish each; the next claim does not wait
//! for the ends of those before, as it does not in the program.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tollgate_core::id::{BatchId, Item};
use tollgate_core::ports::{Claim, Claimed, Queue, StartRecord, Started, StatusMove};
use tollgate_domains::payments::{item, item_type};
use tollgate_store::postgres::PostgresStore;

use super::target;
use crate::measure::target::lane_name;
use crate::sample::Sample;
use crate::stopwatch::Lap;

/// The default batch size of an item type.
const BATCH: u32 = 500;
/// Items that wait for their end at once: as many as the engine runs flows.
const FINISHING: usize = 1024;
const MAX_RETRIES: u32 = 5;

pub(super) async fn measure(url: &str, count: u32) -> Result<Sample> {
    let store = target::open(url).await?;

    let lap = Lap::begin()?;
    let mut finishing = JoinSet::new();
    let mut finished = 0;
    for number in 0.. {
        let claimed = claim_and_start(&store, number).await?;
        if claimed.is_empty() {
            break;
        }
        for claimed in claimed {
            while finishing.len() >= FINISHING {
                finished += ended(&mut finishing).await?;
            }
            finishing.spawn(finish(Arc::clone(&store), item(&claimed.id), claimed.run));
        }
    }
    while !finishing.is_empty() {
        finished += ended(&mut finishing).await?;
    }
    let sample = lap.sample(count)?;
    ensure!(finished == count, "{finished} of {count} were finished");
    Ok(sample)
}

async fn claim_and_start(store: &PostgresStore, number: u32) -> Result<Vec<Claimed>> {
    let batch = BatchId::new(format!("BATCH-{number:016x}"));
    let claimed = store.claim(claim(batch.clone(), BATCH)).await?;
    let start = |claimed: &Claimed| StartRecord {
        id: claimed.id.clone(),
        fence: claimed.fence,
        flow: item(&claimed.id).exec_flow(claimed.run),
        started: Started::New,
    };
    let starts: Vec<_> = claimed.iter().map(start).collect();
    if !starts.is_empty() {
        store
            .record_starts(&item_type(), &batch, starts, MAX_RETRIES)
            .await?;
    }
    Ok(claimed)
}

/// As the dispatcher claims by default.
pub(super) fn claim(batch: BatchId, limit: u32) -> Claim {
    let ahead = Duration::from_secs(6);
    Claim {
        item_type: item_type(),
        lane: lane_name(),
        batch,
        ahead,
        stale_after: Duration::from_mins(2),
        limit,
        credit_horizon: ahead + Duration::from_secs(2),
    }
}

async fn finish(store: Arc<PostgresStore>, item: Item, run: u32) -> Result<bool> {
    let status = StatusMove::new(&["SCHEDULED"], "PROCESSING");
    Ok(store.finish(&item, run, status).await?)
}

async fn ended(finishing: &mut JoinSet<Result<bool>>) -> Result<u32> {
    Ok(match finishing.join_next().await {
        Some(finished) => u32::from(finished??),
        None => 0,
    })
}
