//! The writer: one thread, one connection, many use cases per commit.
//!
//! Each use case runs in a savepoint of its own, so that one that fails takes nobody along, and is
//! answered only after the commit that holds it. A caller that hangs up changes nothing: its use
//! case is the writer's by then.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};
use tollgate_core::ports::{StoreError, StoreResult};

use super::error::Failed;
use super::fault::Fault;
use crate::clock::Clock;
use crate::urgency::Urgency;

/// So many use cases may wait for the writer; more wait outside.
const MAX_WAITING: usize = 4096;
/// A commit holds at most so many use cases …
const MAX_GROUP: usize = 512;
/// … and takes no further one once it has been open for this long, if an urgent one is in it or waits for the next commit …
const MAX_GROUP_US: i64 = 5_000;
/// … or for this long at the latest. Admissions of a thousand items take longer than the first; together they write a page once
/// that several of them change.
const MAX_CALM_GROUP_US: i64 = 50_000;

/// Runs inside the transaction (or learns why there is none), and returns what is to be said
/// after the commit.
type Job = Box<dyn FnOnce(StoreResult<&Connection>) -> Reply + Send>;
type Reply = Box<dyn FnOnce(&StoreResult<()>) + Send>;

#[derive(Default)]
struct Waiting {
    urgent: VecDeque<Job>,
    normal: VecDeque<Job>,
    closed: bool,
}

impl Waiting {
    fn next(&mut self) -> Option<Next> {
        let urgent = self.urgent.pop_front().map(|job| (Urgency::Urgent, job));
        urgent.or_else(|| Some((Urgency::Normal, self.normal.pop_front()?)))
    }

    /// The next one that joins a commit which has been open for so long.
    fn next_within(&mut self, open_us: i64, is_calm: bool) -> Option<Next> {
        let most = if is_calm && self.urgent.is_empty() {
            MAX_CALM_GROUP_US
        } else {
            MAX_GROUP_US
        };
        if open_us < most { self.next() } else { None }
    }
}

type Next = (Urgency, Job);

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    fault: Fault,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").finish_non_exhaustive()
    }
}

impl Writer {
    pub(crate) fn start(
        connection: Connection,
        clock: Clock,
        fault: Fault,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (theirs, noted) = (Arc::clone(&shared), fault.clone());
        let thread = std::thread::Builder::new()
            .name("sqlite-writer".into())
            .spawn(move || run(&connection, &clock, &theirs, &noted))?;
        Ok(Self {
            shared,
            fault,
            room: Arc::new(Semaphore::new(MAX_WAITING)),
            thread: Some(thread),
        })
    }

    /// Runs one use case; returns after its commit, or with the reason why nothing was written.
    #[tracing::instrument(level = "debug", skip_all)]
    pub(crate) async fn write<T: Send + 'static, E: Into<Failed>>(
        &self,
        urgency: Urgency,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> StoreResult<T> {
        let closed = || StoreError::Unavailable("the store is closed".into());
        let permit = Arc::clone(&self.room)
            .acquire_owned()
            .await
            .map_err(|_| closed())?;
        let (answer, answered) = oneshot::channel();
        let (fault, span) = (self.fault.clone(), tracing::debug_span!("transaction"));
        let job: Job = Box::new(move |connection| {
            // Of the time that the caller waits, this is the use case itself; the rest are others and the commit.
            let span = span.entered();
            let result = connection.and_then(|connection| in_savepoint(connection, &fault, work));
            drop(span);
            Box::new(move |committed| {
                drop(permit);
                let said = match committed {
                    Ok(()) => result,
                    Err(why) => result.and(Err(why.clone())),
                };
                // A caller that has hung up does not want to know.
                let _ = answer.send(said);
            })
        });
        {
            let mut waiting = self.shared.lock();
            if waiting.closed {
                return Err(closed());
            }
            match urgency {
                Urgency::Urgent => waiting.urgent.push_back(job),
                Urgency::Normal => waiting.normal.push_back(job),
            }
        }
        self.shared.arrived.notify_one();
        answered.await.map_err(|_| closed())?
    }

    /// Use cases that wait, the one under way included.
    pub(crate) fn waiting(&self) -> usize {
        MAX_WAITING - self.room.available_permits()
    }
}

impl Drop for Writer {
    /// What was handed over is still written.
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.arrived.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(connection: &Connection, clock: &Clock, shared: &Shared, fault: &Fault) {
    while let Some(first) = wait_for_work(shared) {
        let begun = fault.check().and_then(|()| {
            let begun = connection.execute_batch("BEGIN IMMEDIATE");
            begun.map_err(|error| fault.judge(error))
        });
        if let Err(why) = begun {
            (first.1)(Err(why.clone()))(&Err(why));
            continue;
        }
        let replies = fill_group(connection, clock, shared, first);
        let committed = commit(connection, fault);
        for reply in replies {
            reply(&committed);
        }
    }
}

fn commit(connection: &Connection, fault: &Fault) -> StoreResult<()> {
    if connection.is_autocommit() {
        let why = "the disk is full or failed; the transactions of this commit were rolled back";
        return Err(StoreError::Unavailable(why.into()));
    }
    let committed = fault.check().and_then(|()| {
        let committed = connection.execute_batch("COMMIT");
        committed.map_err(|error| fault.judge(error))
    });
    if committed.is_err() {
        let _ = connection.execute_batch("ROLLBACK");
    }
    committed
}

fn wait_for_work(shared: &Shared) -> Option<Next> {
    let mut waiting = shared.lock();
    loop {
        if let Some(job) = waiting.next() {
            return Some(job);
        }
        if waiting.closed {
            return None;
        }
        waiting = shared
            .arrived
            .wait(waiting)
            .unwrap_or_else(PoisonError::into_inner);
    }
}

fn fill_group(connection: &Connection, clock: &Clock, shared: &Shared, first: Next) -> Vec<Reply> {
    let opened = clock.now_us();
    let (urgency, first) = first;
    // No urgent write waits for this commit.
    let mut is_calm = urgency == Urgency::Normal;
    let mut replies = vec![first(Ok(connection))];
    // A full disk rolls the whole transaction back at once (autocommit is on again): the commit
    // that follows then fails, and everyone in the group is told so.
    while replies.len() < MAX_GROUP && !connection.is_autocommit() {
        let open_us = clock.now_us() - opened;
        let Some((urgency, job)) = shared.lock().next_within(open_us, is_calm) else {
            break;
        };
        is_calm &= urgency == Urgency::Normal;
        replies.push(job(Ok(connection)));
    }
    replies
}

fn in_savepoint<T, E: Into<Failed>>(
    connection: &Connection,
    fault: &Fault,
    work: impl FnOnce(&Connection) -> Result<T, E>,
) -> StoreResult<T> {
    connection
        .execute_batch("SAVEPOINT use_case")
        .map_err(|error| fault.judge(error))?;
    // A panic is our own bug; it must not take the writer, and with it everybody else, along.
    let done = catch_unwind(AssertUnwindSafe(|| work(connection)));
    let done = done.map_or_else(
        |_| Err(StoreError::Bug("a use case panicked; see the log".into())),
        |done| done.map_err(|why| fault.judge(why)),
    );
    match done {
        Ok(done) => {
            connection
                .execute_batch("RELEASE use_case")
                .map_err(|error| fault.judge(error))?;
            Ok(done)
        }
        Err(why) => {
            // Fails only if the whole transaction is gone, and then there is nothing to undo.
            let _ = connection.execute_batch("ROLLBACK TO use_case; RELEASE use_case");
            Err(why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Job {
        Box::new(|_| Box::new(|_| {}))
    }

    #[test]
    fn a_commit_stays_open_longer_while_nothing_urgent_is_in_it_or_waits() {
        let mut waiting = Waiting::default();
        waiting.normal.push_back(nothing());
        assert!(waiting.next_within(MAX_CALM_GROUP_US, true).is_none());
        assert!(waiting.next_within(MAX_GROUP_US, false).is_none());
        assert!(waiting.next_within(MAX_CALM_GROUP_US - 1, true).is_some());
        waiting.normal.push_back(nothing());
        waiting.urgent.push_back(nothing());
        assert!(waiting.next_within(MAX_GROUP_US, true).is_none());
        assert!(waiting.next_within(MAX_GROUP_US - 1, true).is_some());
        assert_eq!((waiting.urgent.len(), waiting.normal.len()), (0, 1));
    }
}
