//! Feeds: the records of a topic, read by any number of processes. Each process reads the partitions that it holds, each in
//! a task of its own (`feeds/reading.rs`); the store says which ones, and takes a process's word about a
//! partition only while it holds it. A process that was stopped and wakes up has lost its partitions and writes nothing.

mod answers;
mod holding;
mod pieces;
mod reading;
mod showing;
mod standstill;
mod troubles;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;
use tollgate_core::id::ItemType;
use tollgate_core::ports::{
    FeedSource, HeldPartition, LEASE, PartitionId, PartitionWish, RecordReader, Share, SourceError,
    Store, StoreResult, Topic,
};

use crate::Wake;
use showing::Shown;
use troubles::{About, Troubles};

/// How often a process says that it is there.
const SHARE_EVERY: Duration = Duration::from_secs(2);
/// How often the topic is asked for its partitions, in shares; while that fails, at growing intervals up to this.
const LOOK_EVERY: u32 = 15;

/// A process that cannot reach the topic for so long gives back its partitions: another one may reach it.
const LET_GO_AFTER: Duration = Duration::from_secs(30);

/// Where a partition begins that was never read. Partitions that are added to the topic later begin at their first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedStart {
    Earliest,
    Latest,
}

#[derive(Debug, Clone)]
pub struct FeedOptions {
    pub name: String,
    pub topic: String,
    pub item_type: ItemType,
    pub start: FeedStart,
    /// Rejected records are answered.
    pub answers: bool,
    /// This process, by a name that no other has.
    pub owner: String,
}

pub struct FeedRunner {
    options: FeedOptions,
    source: Arc<dyn FeedSource>,
    reader: Arc<dyn RecordReader>,
    store: Arc<dyn Store>,
    /// Somebody takes in what was written.
    wake: Wake,
    troubles: Troubles,
    /// Where the logs end, as far as was seen.
    log_ends: Mutex<BTreeMap<u32, i64>>,
    /// Whether the broker's tools were last refused our positions.
    is_hidden: AtomicBool,
}

impl std::fmt::Debug for FeedRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FeedRunner")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// The partitions that this process reads: under which fence, and how to end it.
#[derive(Default)]
struct Readers {
    tasks: JoinSet<()>,
    by_partition: HashMap<u32, (u64, AbortHandle)>,
    topic: Topic,
    /// How many shares to wait before the topic is asked for again, and how often that has failed in a row.
    until_look: u32,
    failed_looks: u32,
    failed_since: Option<Instant>,
    was_paused: bool,
    shown: Shown,
}

impl Readers {
    fn looked(&mut self, is_fine: bool) {
        if is_fine {
            (self.until_look, self.failed_looks) = (LOOK_EVERY, 0);
            self.failed_since = None;
            return;
        }
        // It may be another topic by now.
        self.topic.id = None;
        let failed_since = self.failed_since.get_or_insert_with(Instant::now);
        if failed_since.elapsed() >= LET_GO_AFTER {
            self.topic.partitions.clear();
        }
        let growing = (1_u32 << self.failed_looks.min(8)) - 1;
        self.until_look = growing.min(LOOK_EVERY);
        self.failed_looks += 1;
    }

    /// Whether the topic is to be asked for. While the feed is paused, with every share: a process that still has the id of a
    /// topic that is gone would pause a feed that was resumed correctly.
    fn is_due(&mut self) -> bool {
        if self.until_look > 0 && (self.failed_looks > 0 || !self.was_paused) {
            self.until_look -= 1;
            return false;
        }
        true
    }

    /// Who resumes a feed has put something right: it is looked at without delay.
    fn saw_pause(&mut self, is_paused: bool) {
        if self.was_paused && !is_paused && self.failed_looks > 0 {
            self.until_look = 0;
        }
        self.was_paused = is_paused;
    }
}

impl FeedRunner {
    pub fn new(
        options: FeedOptions,
        source: Arc<dyn FeedSource>,
        reader: Arc<dyn RecordReader>,
        store: Arc<dyn Store>,
        wake: Wake,
    ) -> Self {
        let troubles = Troubles::new(Arc::clone(&store), &options.name);
        Self {
            options,
            source,
            reader,
            store,
            wake,
            troubles,
            log_ends: Mutex::default(),
            is_hidden: AtomicBool::new(false),
        }
    }

    /// Reads until told to stop, then gives back what it holds.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let runner = Arc::new(self);
        let mut readers = Readers::default();
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                () = runner.share(&mut readers) => {}
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                () = tokio::time::sleep(SHARE_EVERY) => {}
            }
        }
        readers.tasks.shutdown().await;
        let FeedOptions { name, owner, .. } = &runner.options;
        if let Err(error) = runner.store.leave_feed(name, owner).await {
            tracing::warn!(feed = name, %error, "the feed's partitions are free when their lease ends");
        }
    }

    async fn share(self: &Arc<Self>, readers: &mut Readers) {
        while let Some(ended) = readers.tasks.try_join_next() {
            if let Some(error) = ended.err().filter(JoinError::is_panic) {
                tracing::error!(feed = self.options.name, %error, "a task of the feed panicked");
            }
        }
        self.look(readers).await;
        match self.held(&readers.topic).await {
            Ok(share) => {
                if let Some(why) = &share.paused {
                    tracing::debug!(feed = self.options.name, why, "the feed is paused");
                }
                readers.saw_pause(share.paused.is_some());
                self.show(readers, &share.held);
                let held: Vec<_> = share.held.iter().map(|held| held.number).collect();
                self.read_held(readers, share);
                self.troubles.say_again(&held).await;
            }
            Err(error) => {
                // Readers go on: what they may write is judged when they write it.
                tracing::warn!(feed = self.options.name, %error, "partitions could not be assigned to processes");
            }
        }
    }

    /// Asks for the topic's partitions once in a while. Where only a person can help, the feed is paused.
    async fn look(&self, readers: &mut Readers) {
        if !readers.is_due() {
            return;
        }
        let looked = self.source.topic().await;
        readers.looked(looked.is_ok());
        let error = match looked {
            Ok(topic) => {
                readers.topic = topic;
                self.troubles.over(About::Topic).await;
                return;
            }
            Err(error) => error,
        };
        // The feed is listed, and says why nothing comes.
        let _ = self.held(&readers.topic).await;
        match error {
            SourceError::Denied(why) => {
                self.troubles.over(About::Topic).await;
                self.pause(format!("{why}, then resume")).await;
            }
            SourceError::Trouble(why) | SourceError::OutOfRange(why) => {
                self.troubles.note(About::Topic, &why).await;
            }
        }
    }

    async fn held(&self, topic: &Topic) -> StoreResult<Share> {
        let wish = PartitionWish {
            feed: self.options.name.clone(),
            topic: self.options.topic.clone(),
            owner: self.options.owner.clone(),
            topic_id: topic.id.clone(),
            partitions: topic.partitions.clone(),
            log_ends: self.seen_ends(),
            lease: LEASE,
        };
        self.store.share_partitions(wish).await
    }

    /// Ends readers of what is not held any more, or under another fence, and begins the others.
    fn read_held(self: &Arc<Self>, readers: &mut Readers, share: Share) {
        let held: HashMap<u32, HeldPartition> =
            share.held.iter().map(|held| (held.number, *held)).collect();
        readers.by_partition.retain(|number, (fence, task)| {
            let is_held = held.get(number).is_some_and(|held| held.fence == *fence);
            if !is_held {
                task.abort();
            }
            is_held && !task.is_finished()
        });
        for held in share.held {
            if !readers.by_partition.contains_key(&held.number) {
                let holding = Arc::clone(self).hold(self.partition(held.number), held);
                let task = readers.tasks.spawn(holding);
                readers.by_partition.insert(held.number, (held.fence, task));
            }
        }
    }

    fn partition(&self, number: u32) -> PartitionId {
        PartitionId {
            feed: self.options.name.clone(),
            topic: self.options.topic.clone(),
            number,
        }
    }

    fn seen_ends(&self) -> Vec<(u32, i64)> {
        let ends = self.log_ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.iter().map(|(number, end)| (*number, *end)).collect()
    }

    fn saw_end(&self, number: u32, end: i64) {
        let mut ends = self.log_ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.insert(number, end);
    }
}
