//! Works jobs off: acts on many items that a person has confirmed, a few items in a transaction and at a pace that
//! leaves the store to the gate. Jobs lie in the store, so whoever starts next goes on where another was cut
//! off, and two runners do not hurt: a batch holds its job.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tollgate_core::actor;
use tollgate_core::id::Item;
use tollgate_core::job::{JobMoves, JobPlace};
use tollgate_core::ports::{AskedItem, Author, BankSaid, JobView, Store, StoreResult, Worked};

use crate::every::Every;

/// How often to look for a job.
const PAUSE: Duration = Duration::from_millis(500);
/// At most so many items in one transaction: it holds the plan of their lanes.
const MOST_AT_ONCE: u32 = 10;
/// How often to look for previews that nobody confirmed, and how old they are then.
const SWEEP_EVERY: Duration = Duration::from_mins(1);
const KEPT_PREVIEWS: Duration = Duration::from_hours(1);
/// At most so many chunks of them are removed at once, and so long it rests in between.
const MOST_REMOVED: u32 = 50;
const REST: Duration = Duration::from_millis(50);

/// So many items are read at once by a job that asks about each.
const ASKED_AT_ONCE: u32 = 20;

/// Whether the person with this name may still act on items.
pub type MayAct = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Asks the banks of items in doubt about them.
#[async_trait]
pub trait AskBanks: Send + Sync {
    /// With a turn in the bank's lane. The inner error says why nothing was asked.
    async fn ask(&self, item: &Item) -> StoreResult<Result<BankSaid, String>>;
}

pub struct JobRunner {
    store: Arc<dyn Store>,
    moves: JobMoves,
    banks: Arc<dyn AskBanks>,
    may_act: MayAct,
    per_second: u32,
}

impl std::fmt::Debug for JobRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobRunner")
            .field("per_second", &self.per_second)
            .finish_non_exhaustive()
    }
}

impl JobRunner {
    /// `per_second`: the most items that are acted on in a second.
    pub fn new(
        store: Arc<dyn Store>,
        moves: JobMoves,
        banks: Arc<dyn AskBanks>,
        may_act: MayAct,
        per_second: u32,
    ) -> Self {
        Self {
            store,
            moves,
            banks,
            may_act,
            per_second: per_second.max(1),
        }
    }

    /// Until told to stop. A batch that is cut off has done nothing.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let sweeps = self.sweep_now_and_then(stop.clone());
        let mut every = Every::new(PAUSE, stop.clone());
        let works = async { while every.once(self.look(JobPlace::Store)).await {} };
        let mut every = Every::new(PAUSE, stop.clone());
        let asks = async { while every.once(self.look(JobPlace::Banks)).await {} };
        tokio::select! {
            () = works => {}
            () = asks => {}
            () = sweeps => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    async fn sweep_now_and_then(&self, mut stop: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(SWEEP_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            if let Err(error) = self.forget_previews().await {
                tracing::warn!(%error, "old previews of jobs could not be removed");
            }
        }
    }

    async fn forget_previews(&self) -> StoreResult<()> {
        while (self.store)
            .forget_previews(KEPT_PREVIEWS, MOST_REMOVED)
            .await?
            > 0
        {
            tokio::time::sleep(REST).await;
        }
        Ok(())
    }

    async fn look(&self, place: JobPlace) {
        if let Err(error) = self.work_all(place).await {
            tracing::warn!(%error, "a job waits for its next try");
        }
    }

    /// One job after the other, the oldest first.
    async fn work_all(&self, place: JobPlace) -> StoreResult<()> {
        while let Some(job) = self.store.job_to_do(place).await? {
            match place {
                _ if !(self.may_act)(&job.actor) => self.stop(&job).await?,
                JobPlace::Store => self.work_off(&job).await?,
                JobPlace::Banks => self.ask_about_all(&job).await?,
            }
        }
        Ok(())
    }

    /// One after the other: each waits for its turn, so the lane sets the pace.
    async fn ask_about_all(&self, job: &JobView) -> StoreResult<()> {
        loop {
            let next = self.store.next_to_ask(&job.id, ASKED_AT_ONCE).await?;
            if next.is_empty() {
                return Ok(());
            }
            for (number, id) in next {
                let said = self.banks.ask(&Item::new(&job.item_type, &id)).await?;
                let asked = AskedItem { number, id, said };
                match self.store.note_asked(&job.id, asked).await? {
                    Worked::Some(_) => {}
                    Worked::Ended(_) => {
                        tracing::info!(job = %job.id, act = job.act.as_str(), "the job has ended");
                        return Ok(());
                    }
                    Worked::NotRunning => return Ok(()),
                }
            }
        }
    }

    async fn work_off(&self, job: &JobView) -> StoreResult<()> {
        let limit = self.per_second.min(MOST_AT_ONCE);
        loop {
            let moves = self.moves.clone();
            match self.store.work_job(&job.id, limit, moves).await? {
                Worked::Some(count) => tokio::time::sleep(self.rest_after(count)).await,
                Worked::Ended(count) => {
                    tracing::info!(job = %job.id, act = job.act.as_str(), "the job has ended");
                    tokio::time::sleep(self.rest_after(count)).await;
                    return Ok(());
                }
                Worked::NotRunning => return Ok(()),
            }
        }
    }

    fn rest_after(&self, items: u64) -> Duration {
        let micros = items.saturating_mul(1_000_000) / u64::from(self.per_second);
        Duration::from_micros(micros)
    }

    /// What its author may not do any more is not done in their name.
    async fn stop(&self, job: &JobView) -> StoreResult<()> {
        let why = format!("{} no longer has the role operate", job.actor);
        tracing::warn!(job = %job.id, why, "the job is stopped");
        let author = Author::new(actor::TOLLGATE, why);
        self.store.stop_job(&job.id, author).await?;
        Ok(())
    }
}
