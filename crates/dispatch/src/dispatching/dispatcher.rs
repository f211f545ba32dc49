//! The dispatcher: reads its configuration, claims what is due, starts exec flows, records.
//!
//! A crash after the claim leaves CLAIMED rows that go stale and are claimed again, as their next run; a
//! crash after the start leaves flows that no longer own their items once those are claimed again. A process that
//! lives and does not know what became of a claim gives it back with its next cycle: until then the claim
//! counts against its lane's credit, and a large one would keep the whole lane standing.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tollgate_core::id::{BatchId, ItemType, LaneName};
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::ports::{
    Claim, Claimed, Engine, StartRecord, Started, Store, StoreError, StoreResult,
};

use crate::dispatching::cycle::{Cycle, Round};
use crate::dispatching::exec_starts::{Batch, Part, exec_starts};
use crate::dispatching::interval::Interval;
use crate::dispatching::item_types::item_type;

/// How often the dispatcher looks, between two full cycles, for what cannot wait for the next one.
const LOOK_PAUSE: Duration = Duration::from_millis(200);
/// What is due within this time cannot: claiming and starting take their time as well.
const SOON: Duration = Duration::from_secs(1);
/// A lane may have this much more started than it can send until the claim-ahead time is over.
const CREDIT_SPARE: Duration = Duration::from_secs(2);
/// So many claims with an unknown end are remembered; further ones go stale.
const MAX_LOST: usize = 64;
/// One cycle claims at most this many batches, so that its end is always near.
const MAX_BATCHES: u32 = 64;

pub struct Dispatcher {
    item_type: ItemType,
    store: Arc<dyn Store>,
    engine: Arc<dyn Engine>,
    /// Held during a cycle; a second cycle of the same type is skipped.
    cycle: Mutex<Memory>,
}

/// What is kept from one cycle to the next.
struct Memory {
    random: SmallRng,
    /// Batches that were claimed, perhaps, and not recorded as started.
    lost: Vec<(LaneName, BatchId)>,
}

impl std::fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher")
            .field("item_type", &self.item_type)
            .finish_non_exhaustive()
    }
}

impl Dispatcher {
    /// `seed` must differ between starts of a process: batch ids come from it.
    pub fn new(
        item_type: ItemType,
        store: Arc<dyn Store>,
        engine: Arc<dyn Engine>,
        seed: u64,
    ) -> Self {
        Self {
            item_type,
            store,
            engine,
            cycle: Mutex::new(Memory {
                random: SmallRng::seed_from_u64(seed),
                lost: vec![],
            }),
        }
    }

    /// Cycles until told to stop. Errors are logged and the next cycle tries again.
    pub async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut interval = Interval::over();
        while !*stop.borrow() {
            let (_, pause) = self.next(&mut interval).await;
            interval.pause(pause, &mut stop).await;
        }
    }

    /// Cycles for so long, or until told to stop, and at least once. What all of them did, or why
    /// the last one failed if none succeeded.
    pub async fn round(
        &self,
        length: Duration,
        mut stop: watch::Receiver<bool>,
    ) -> StoreResult<Round> {
        let began = Instant::now();
        let mut interval = Interval::over();
        let mut round = Round::default();
        loop {
            let (done, pause) = self.next(&mut interval).await;
            let rest = length.saturating_sub(began.elapsed());
            let over = rest <= LOOK_PAUSE || *stop.borrow();
            match &done {
                Ok(cycle) => round.add(cycle),
                Err(error) if over && round.cycles == 0 => return Err(error.clone()),
                Err(_) => {}
            }
            if over {
                return Ok(round);
            }
            interval.pause(pause.min(rest), &mut stop).await;
        }
    }

    /// A full cycle if the interval is over, else a look; and the longest pause after it.
    async fn next(&self, interval: &mut Interval) -> (StoreResult<Cycle>, Duration) {
        let is_full = interval.is_over();
        let began = Instant::now();
        let done = if is_full {
            self.cycle().await
        } else {
            self.look().await
        };
        self.measure(&done, began.elapsed());
        let pause = match &done {
            Ok(cycle) if cycle.unreachable => Duration::from_secs(1),
            Ok(cycle) => {
                interval.goes_on(is_full, cycle.interval);
                LOOK_PAUSE.min(cycle.next_in.unwrap_or(LOOK_PAUSE))
            }
            Err(error) => {
                tracing::warn!(item_type = %self.item_type, %error, "dispatch cycle failed");
                Duration::from_secs(1)
            }
        };
        (done, pause)
    }

    /// Under their usual names.
    fn measure(&self, cycle: &StoreResult<Cycle>, took: Duration) {
        let Ok(cycle) = cycle else { return };
        let count = |name: &'static str, by: u64| {
            metrics::counter!(name, "item_type" => self.item_type.to_string()).increment(by);
        };
        count("dispatch_batch_claimed_total", cycle.claimed);
        count("dispatch_workflow_started_total", cycle.started);
        count("dispatch_workflow_start_failures_total", cycle.failed);
        metrics::histogram!("dispatch_cycle_duration_seconds", "item_type" => self.item_type.to_string())
            .record(took.as_secs_f64());
    }

    /// One cycle: read config → claim → start → record, for every lane that has work within the
    /// claim-ahead time.
    pub async fn cycle(&self) -> StoreResult<Cycle> {
        self.cycle_within(Duration::MAX).await
    }

    /// The same for lanes that have work soon. They are claimed as far ahead as in a full cycle.
    pub async fn look(&self) -> StoreResult<Cycle> {
        self.cycle_within(SOON).await
    }

    async fn cycle_within(&self, reach: Duration) -> StoreResult<Cycle> {
        let Ok(mut memory) = self.cycle.try_lock() else {
            return Ok(Cycle {
                skipped: true,
                ..Cycle::default()
            });
        };
        let config = self.config().await?;
        let mut cycle = Cycle {
            interval: Some(config.interval()),
            ..Cycle::default()
        };
        if !config.enabled {
            cycle.skipped = true;
            return Ok(cycle);
        }
        self.give_back(&mut memory.lost).await?;
        let due = self
            .store
            .lanes_due(
                &self.item_type,
                config.ahead().min(reach),
                config.stale_after(),
            )
            .await?;
        cycle.next_in = due.next_in;
        let mut lanes = due.lanes;
        let mut failed = None;
        for _ in 0..MAX_BATCHES {
            if lanes.is_empty() || cycle.unreachable {
                break;
            }
            // Round robin: a lane with a backlog takes one batch, then the others have theirs.
            let mut full = vec![];
            for lane in lanes {
                // Before every claim: a backlog is many batches, and the switch is for all of them.
                let config = self.config().await?;
                if !config.enabled {
                    return Ok(cycle);
                }
                let id = BatchId::new(format!("BATCH-{:016x}", memory.random.next_u64()));
                let batch = Batch { id, lane, config };
                let done = self.claim_and_start(&batch, &mut memory.random, &mut cycle);
                match done.await {
                    Ok(true) => full.push(batch.lane),
                    Ok(false) => {}
                    Err(error @ StoreError::Fenced(_)) => return Err(error),
                    // Trouble with one lane's items keeps no other lane from its turn.
                    Err(error) => {
                        tracing::warn!(lane = %batch.lane, %error, "a lane's items could not be claimed and started");
                        failed = Some(error);
                        memory.lost.push((batch.lane, batch.id));
                    }
                }
            }
            memory.lost.truncate(MAX_LOST);
            lanes = full;
        }
        match failed {
            Some(error) if cycle.started == 0 => Err(error),
            _ => Ok(cycle),
        }
    }

    /// Gives back what is still claimed under batches whose end is not known.
    async fn give_back(&self, lost: &mut Vec<(LaneName, BatchId)>) -> StoreResult<()> {
        for (lane, batch) in std::mem::take(lost) {
            match self.store.release(&self.item_type, &lane, &batch).await {
                Ok(items) => tracing::info!(%lane, %batch, items, "claims given back"),
                Err(error @ StoreError::Fenced(_)) => return Err(error),
                Err(error) => {
                    tracing::warn!(%lane, %batch, %error, "claims could not be given back");
                    lost.push((lane, batch));
                }
            }
        }
        Ok(())
    }

    /// Whether the batch was full, so that there may be more.
    async fn claim_and_start(
        &self,
        batch: &Batch,
        random: &mut SmallRng,
        cycle: &mut Cycle,
    ) -> StoreResult<bool> {
        let claimed = self.store.claim(self.claim(batch)).await?;
        let is_full = claimed.len() as u64 >= u64::from(batch.config.batch_size);
        if !claimed.is_empty() {
            self.start(batch, claimed, random, cycle).await?;
        }
        Ok(is_full)
    }

    async fn config(&self) -> StoreResult<ItemTypeConfig> {
        let found = item_type(&*self.store, &self.item_type).await?;
        found.map(|found| found.config).ok_or_else(|| {
            StoreError::Invalid(format!("item type {} is not configured", self.item_type))
        })
    }

    fn claim(&self, batch: &Batch) -> Claim {
        let Batch { id, lane, config } = batch;
        Claim {
            item_type: self.item_type.clone(),
            lane: lane.clone(),
            batch: id.clone(),
            ahead: config.ahead(),
            stale_after: config.stale_after(),
            limit: config.batch_size,
            credit_horizon: config.ahead() + CREDIT_SPARE,
        }
    }

    async fn start(
        &self,
        batch: &Batch,
        claimed: Vec<Claimed>,
        random: &mut SmallRng,
        cycle: &mut Cycle,
    ) -> StoreResult<()> {
        cycle.claimed += claimed.len() as u64;
        let mut parts = exec_starts(&self.item_type, batch, claimed, random)?;
        let starts = parts.iter_mut().map(Part::start).collect();
        let started = self.engine.start(starts).await.unwrap_or_else(|error| {
            tracing::warn!(item_type = %self.item_type, %error, "claims given back");
            vec![]
        });
        let unanswered = parts.split_off(started.len());
        let records: Vec<StartRecord> = parts
            .into_iter()
            .zip(started)
            .flat_map(|(part, started)| part.records(started))
            .collect();
        let failed = records.iter().filter(|record| has_failed(record)).count() as u64;
        let expected = records.len() as u64;
        if expected > 0 {
            let retries = batch.config.max_dispatch_retries;
            let recorded = self
                .store
                .record_starts(&self.item_type, &batch.id, records, retries);
            self.warn_of_lost_claims(batch, "start", expected, recorded.await?);
        }
        cycle.failed += failed;
        cycle.started += expected - failed;
        if !unanswered.is_empty() {
            // An outage counts as no failure: the items are READY again.
            cycle.unreachable = true;
            let expected = unanswered.iter().map(|part| part.items.len() as u64).sum();
            let released = self.store.release(&self.item_type, &batch.lane, &batch.id);
            self.warn_of_lost_claims(batch, "release", expected, released.await?);
        }
        Ok(())
    }

    /// An update that is guarded by its claim has moved fewer rows than were claimed.
    fn warn_of_lost_claims(&self, batch: &Batch, what: &'static str, expected: u64, moved: u64) {
        if moved < expected {
            tracing::warn!(
                item_type = %self.item_type,
                batch = %batch.id,
                lane = %batch.lane,
                what,
                lost = expected - moved,
                "claims were lost: their items were changed in the meantime"
            );
        }
    }
}

fn has_failed(record: &StartRecord) -> bool {
    matches!(record.started, Started::Failed(_))
}
