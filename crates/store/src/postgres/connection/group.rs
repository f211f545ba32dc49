//! Small writes, many at a time: what arrives while a transaction is under way goes together
//! into the next. A commit waits for the disk, and some hold a lane meanwhile, so writes that
//! come one by one would be as slow as the disk.

use std::fmt;
use std::sync::Arc;

use deadpool_postgres::Transaction;
use futures::future::BoxFuture;
use tokio::sync::{Mutex, mpsc, oneshot};
use tollgate_core::ports::{StoreError, StoreResult};

use super::run::Runner;
use crate::urgency::Urgency;

/// So much goes into a transaction at most, unless one write alone weighs more.
const MAX_WEIGHT: usize = 1000;
/// So many may wait; more wait outside.
const MAX_WAITING: usize = 4096;

/// One answer per job, in their order; an error rolls all of them back.
pub(crate) type Work<J> = Arc<
    dyn for<'t> Fn(&'t Transaction<'t>, Vec<J>) -> BoxFuture<'t, StoreResult<Answers<J>>>
        + Send
        + Sync,
>;
type Answers<J> = Vec<StoreResult<<J as Job>::Answer>>;

/// A write, or a look, that may share a transaction with others of its kind.
pub(crate) trait Job: Clone + Send + 'static {
    type Answer: Send + 'static;

    fn weight(&self) -> usize {
        1
    }
}

type Waiting<J> = (J, oneshot::Sender<StoreResult<<J as Job>::Answer>>);

/// Hands writes to the tasks that make them. They end when all of its clones are dropped and what was
/// handed over is written.
#[derive(Clone)]
pub(crate) struct Group<J: Job> {
    jobs: mpsc::Sender<Waiting<J>>,
}

impl<J: Job> fmt::Debug for Group<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").finish_non_exhaustive()
    }
}

impl<J: Job> Group<J> {
    /// So many transactions at once as there are `writers`.
    pub(crate) fn start(runner: &Runner, urgency: Urgency, writers: usize, work: &Work<J>) -> Self {
        let (jobs, waiting) = mpsc::channel(MAX_WAITING);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..writers {
            let writer = Writer {
                runner: runner.clone(),
                urgency,
                work: Arc::clone(work),
            };
            tokio::spawn(writer.run(Arc::clone(&waiting)));
        }
        Self { jobs }
    }

    /// Returns after the commit, or with the reason why nothing was written.
    pub(crate) async fn write(&self, job: J) -> StoreResult<J::Answer> {
        let closed = || StoreError::Unavailable("the store is closed".into());
        let (reply, answer) = oneshot::channel();
        self.jobs.send((job, reply)).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

/// Waits for one write, and takes along what has come meanwhile. Empty when there is no more.
async fn next_group<J: Job>(waiting: &mut mpsc::Receiver<Waiting<J>>) -> Vec<Waiting<J>> {
    let mut group: Vec<Waiting<J>> = waiting.recv().await.into_iter().collect();
    let mut weight: usize = group.iter().map(|(job, _)| job.weight()).sum();
    while weight > 0 && weight < MAX_WEIGHT {
        let Ok(next) = waiting.try_recv() else {
            break;
        };
        weight += next.0.weight().max(1);
        group.push(next);
    }
    group
}

struct Writer<J: Job> {
    runner: Runner,
    urgency: Urgency,
    work: Work<J>,
}

impl<J: Job> Writer<J> {
    async fn run(self, waiting: Arc<Mutex<mpsc::Receiver<Waiting<J>>>>) {
        loop {
            let group = next_group(&mut *waiting.lock().await).await;
            if group.is_empty() {
                return;
            }
            let (jobs, replies): (Vec<_>, Vec<_>) = group.into_iter().unzip();
            for (reply, answer) in replies.into_iter().zip(self.write_all(jobs).await) {
                // A caller that has hung up does not want to know.
                let _ = reply.send(answer);
            }
        }
    }

    /// A write that PostgreSQL cannot take must not harm those beside it.
    async fn write_all(&self, jobs: Vec<J>) -> Answers<J> {
        let count = jobs.len();
        match self.write_together(jobs.clone()).await {
            Ok(answers) => answers,
            Err(StoreError::Bug(_)) if count > 1 => {
                let mut answers = Vec::with_capacity(count);
                for job in jobs {
                    match self.write_together(vec![job]).await {
                        Ok(alone) => answers.extend(alone),
                        Err(why) => answers.push(Err(why)),
                    }
                }
                answers
            }
            Err(why) => (0..count).map(|_| Err(why.clone())).collect(),
        }
    }

    async fn write_together(&self, jobs: Vec<J>) -> StoreResult<Answers<J>> {
        let work = Arc::clone(&self.work);
        self.runner
            .in_transaction(self.urgency, move |tx| work(tx, jobs))
            .await
    }
}
