//! W1: a file of payments, line by line through parsing and checks, into the store in batches.
//! One thread parses while the writer writes; the clock stops at the last commit.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, ensure};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tollgate_core::ports::{Admission, NewItem, Queue};
use tollgate_domains::payments::item_type;

use super::{BATCH, target};
use crate::payments;
use crate::sample::Sample;
use crate::stopwatch::{Lap, Progress};

/// Batches that wait for their commit at once; parsing overlaps with them.
const IN_FLIGHT: usize = 4;
/// Parsed batches that wait for a place among those.
const PARSED_AHEAD: usize = 2;

pub(super) async fn measure(dir: &Path, input: PathBuf, count: u32) -> Result<Sample> {
    let store = target::open_store(dir).await?;
    let commits_before = target::commits(dir)?;
    // Held until the commits are counted: closing the database removes their count.
    let sample = admit_file(Arc::clone(&store) as _, input, count).await?;
    let commits = target::commits(dir)? - commits_before;
    drop(store);
    target::check_rows(dir, "SELECT count(*) FROM item_queue", count)?;
    Ok(Sample {
        commits: Some(commits),
        ..sample
    })
}

/// The same on every store.
pub(crate) async fn admit_file(
    store: Arc<dyn Queue>,
    input: PathBuf,
    count: u32,
) -> Result<Sample> {
    let (lap, progress) = (Lap::begin()?, Progress::begin(count));
    let (parsed, mut batches) = mpsc::channel(PARSED_AHEAD);
    let parser = tokio::task::spawn_blocking(move || parse(&input, &parsed));
    let mut in_flight = JoinSet::new();
    while let Some(batch) = batches.recv().await {
        if in_flight.len() == IN_FLIGHT
            && let Some(admitted) = in_flight.join_next().await
        {
            progress.add(admitted??);
        }
        in_flight.spawn(admit(Arc::clone(&store), batch));
    }
    while let Some(admitted) = in_flight.join_next().await {
        progress.add(admitted??);
    }
    let (last_over_first, sample) = (progress.last_over_first(), lap.sample(count)?);

    parser.await??;
    Ok(Sample {
        last_over_first,
        ..sample
    })
}

fn parse(input: &Path, parsed: &mpsc::Sender<Vec<NewItem>>) -> Result<()> {
    let batch = usize::try_from(BATCH)?;
    for items in payments::read(input, batch, target::lane_name())? {
        parsed.blocking_send(items?)?;
    }
    Ok(())
}

/// Returns when the batch is durable, with the number of its items: all of them are new.
pub(super) async fn admit(store: Arc<dyn Queue>, items: Vec<NewItem>) -> Result<u32> {
    let admissions = store.admit(&item_type(), items).await?;
    for admission in &admissions {
        ensure!(matches!(admission, Admission::New(_)), "{admission:?}");
    }
    Ok(u32::try_from(admissions.len())?)
}
