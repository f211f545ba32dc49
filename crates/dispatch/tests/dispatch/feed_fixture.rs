//! A feed on a real store, from a source that does what the test says.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollgate_core::Timestamp;
use tollgate_core::id::ItemType;
use tollgate_core::ports::{
    Bulks, ChunkEnd, ChunkId, DeadRecord, FeedRecord, FeedSource, FeedView, Feeds, Fetched,
    LineError, Log, PartitionId, RecordAnswer, RecordReader, SourceError, SourceResult, Store,
    Topic,
};
use tollgate_dispatch::{FeedOptions, FeedRunner, FeedStart, Wake};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

/// More than may wait, in chunks of a thousand; handed out in tenths of one, as by a broker with small batches.
pub(crate) const END: i64 = 20_000;
const AT_ONCE: i64 = 100;
pub(crate) const CHUNK: i64 = 1000;
/// How often it is looked whether something is so, every 20 ms: for a minute, and for less than the 30 s after which a feed that runs looks
/// at its topic.
const LONG: usize = 3000;
const SHORT: usize = 1000;
const HOURS: usize = 300_000;
/// How long a broker waits for records that do not come.
const FETCH_WAIT: Duration = Duration::from_millis(500);

/// What becomes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answering {
    Written,
    Refused,
    /// The broker is silent.
    Silent,
}

/// One partition with this many records, or nothing but trouble.
pub(crate) struct Source {
    pub(crate) is_away: bool,
    pub(crate) topic: Mutex<Topic>,
    pub(crate) topics: AtomicUsize,
    pub(crate) is_lost: AtomicBool,
    /// What lies before was deleted.
    pub(crate) first: AtomicI64,
    pub(crate) log_end: AtomicI64,
    /// What lies behind belongs to a transaction that stays open.
    pub(crate) committed: AtomicI64,
    /// What lies behind is not handed out, whatever it is.
    pub(crate) readable: AtomicI64,
    /// A fetch from here on is out of range, although the log has it.
    pub(crate) spoilt: AtomicI64,
    /// A fetch behind what is committed waits until its position is deleted, and not for a moment.
    pub(crate) waits_for_long: bool,
    pub(crate) fetches: AtomicUsize,
    pub(crate) looks: AtomicUsize,
    pub(crate) shown: Mutex<Vec<Vec<(u32, i64)>>>,
    pub(crate) answering: Answering,
    pub(crate) answers: AtomicUsize,
    /// The reader of records has a bug that this record meets.
    pub(crate) panics_at: Arc<AtomicI64>,
}

impl Default for Source {
    fn default() -> Self {
        Self {
            is_away: false,
            topic: Mutex::new(Topic {
                id: Some("t".into()),
                partitions: vec![0],
            }),
            topics: AtomicUsize::new(0),
            is_lost: AtomicBool::new(false),
            first: AtomicI64::new(0),
            log_end: AtomicI64::new(END),
            committed: AtomicI64::new(END),
            readable: AtomicI64::new(END),
            spoilt: AtomicI64::new(-1),
            waits_for_long: false,
            fetches: AtomicUsize::new(0),
            looks: AtomicUsize::new(0),
            shown: Mutex::default(),
            answering: Answering::Written,
            answers: AtomicUsize::new(0),
            panics_at: Arc::new(AtomicI64::new(-1)),
        }
    }
}

impl Source {
    fn is_deleted(&self, position: i64) -> bool {
        position < self.first.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl FeedSource for Source {
    async fn topic(&self) -> SourceResult<Topic> {
        self.topics.fetch_add(1, Ordering::SeqCst);
        if self.is_lost.load(Ordering::SeqCst) {
            return Err(SourceError::Trouble("no broker".into()));
        }
        Ok(self.topic.lock().unwrap().clone())
    }

    async fn log(&self, _: u32) -> SourceResult<Log> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        let end = self.log_end.load(Ordering::SeqCst);
        let first = self.first.load(Ordering::SeqCst);
        Ok(Log { first, end })
    }

    async fn fetch(&self, _: u32, from: i64, _: usize) -> SourceResult<Fetched> {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        if self.is_away {
            return Err(SourceError::Trouble("no broker".into()));
        }
        let committed = self.committed.load(Ordering::SeqCst);
        let readable = self.readable.load(Ordering::SeqCst).min(committed);
        let next = (from + AT_ONCE).min(readable).max(from);
        while next == from && self.waits_for_long && !self.is_deleted(from) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if from == self.spoilt.load(Ordering::SeqCst) {
            assert!(self.looks.load(Ordering::SeqCst) < 100, "without a pause");
            return Err(SourceError::OutOfRange("it is spoilt".into()));
        }
        if self.is_deleted(from) {
            return Err(SourceError::OutOfRange("it was deleted".into()));
        }
        if next == from {
            tokio::time::sleep(FETCH_WAIT).await;
        }
        let record = |offset| FeedRecord {
            offset,
            value: Some(b"{}".to_vec()),
            ..FeedRecord::default()
        };
        Ok(Fetched {
            records: (from..next).map(record).collect(),
            next,
            log_end: self.log_end.load(Ordering::SeqCst),
            committed_end: committed,
        })
    }

    async fn dead_letter(&self, _: &[DeadRecord], _: Timestamp) -> SourceResult<()> {
        Ok(())
    }

    async fn answer(&self, _: u32, _: &[RecordAnswer], _: Timestamp) -> SourceResult<()> {
        self.answers.fetch_add(1, Ordering::SeqCst);
        match self.answering {
            Answering::Written => Ok(()),
            Answering::Refused => Err(SourceError::Trouble("no results topic".into())),
            Answering::Silent => std::future::pending().await,
        }
    }

    /// In vain at first.
    async fn show_positions(&self, positions: &[(u32, i64)]) -> SourceResult<()> {
        let mut shown = self.shown.lock().unwrap();
        shown.push(positions.to_vec());
        if shown.len() == 1 {
            return Err(SourceError::Denied("no right to the group".into()));
        }
        Ok(())
    }
}

#[derive(Debug)]
struct AsItIs {
    panics_at: Arc<AtomicI64>,
}

impl RecordReader for AsItIs {
    fn read(&self, record: &FeedRecord, text: &mut Vec<u8>) -> Result<(), String> {
        assert_ne!(record.offset, self.panics_at.load(Ordering::SeqCst));
        let line = PartitionId::line(record.offset);
        text.extend_from_slice(format!("{line} {{}}\n").as_bytes());
        Ok(())
    }
}

pub(crate) fn partition() -> PartitionId {
    PartitionId {
        feed: "in".into(),
        topic: "t".into(),
        number: 0,
    }
}

pub(crate) fn stands_at(position: i64) -> impl Fn(&FeedView) -> bool {
    move |view| {
        let partition = view.partitions.first();
        partition.is_some_and(|partition| partition.position == Some(position))
    }
}

pub(crate) fn has_reached(counter: &AtomicUsize, count: usize) -> impl Fn(&FeedView) -> bool {
    move |_| counter.load(Ordering::SeqCst) >= count
}

fn run(
    store: &Arc<SqliteStore>,
    source: &Arc<Source>,
    item_type: &str,
    start: FeedStart,
) -> (watch::Sender<bool>, JoinHandle<()>) {
    let options = FeedOptions {
        name: "in".into(),
        topic: "t".into(),
        item_type: ItemType::new(item_type),
        start,
        answers: true,
        owner: item_type.into(),
    };
    let (stop, stopped) = watch::channel(false);
    let runner = FeedRunner::new(
        options,
        Arc::clone(source) as Arc<dyn FeedSource>,
        Arc::new(AsItIs {
            panics_at: Arc::clone(&source.panics_at),
        }),
        Arc::clone(store) as Arc<dyn Store>,
        Wake::default(),
    );
    (stop, tokio::spawn(runner.run(stopped)))
}

pub(crate) struct Running {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) source: Arc<Source>,
    stop: watch::Sender<bool>,
    runner: JoinHandle<()>,
    _folder: TempDir,
}

impl Running {
    pub(crate) fn start(start: FeedStart) -> Self {
        Self::of(start, Source::default())
    }

    pub(crate) fn of(start: FeedStart, source: Source) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::at(folder.path().join("t.db"));
        let store = Arc::new(SqliteStore::open(options).unwrap());
        let source = Arc::new(source);
        let (stop, runner) = run(&store, &source, "PAYMENT", start);
        Self {
            store,
            source,
            stop,
            runner,
            _folder: folder,
        }
    }

    /// With the configuration corrected, when more is committed.
    pub(crate) async fn restart(&mut self, item_type: &str, committed: i64) {
        self.stop.send(true).unwrap();
        (&mut self.runner).await.unwrap();
        self.source.committed.store(committed, Ordering::SeqCst);
        (self.stop, self.runner) = run(&self.store, &self.source, item_type, FeedStart::Earliest);
    }

    pub(crate) async fn view(&self) -> Option<FeedView> {
        self.store.feeds().await.unwrap().pop()
    }

    pub(crate) async fn position(&self) -> Option<i64> {
        self.view().await?.partitions.first()?.position
    }

    pub(crate) async fn trouble(&self) -> Option<String> {
        Some(self.view().await?.trouble?.what)
    }

    pub(crate) async fn until_at(&self, position: i64) {
        self.until_seen(LONG, "it is read", stands_at(position))
            .await;
    }

    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&FeedView) -> bool) {
        self.until_seen(SHORT, what, is_so).await;
    }

    /// Where time is paused: it passes while the store works, so that nothing can be measured by it.
    pub(crate) async fn until_some_time(&self, what: &str, is_so: impl Fn(&FeedView) -> bool) {
        self.until_seen(HOURS, what, is_so).await;
    }

    async fn until_seen(&self, looks: usize, what: &str, is_so: impl Fn(&FeedView) -> bool) {
        for _ in 0..looks {
            if self.view().await.as_ref().is_some_and(&is_so) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{what}: {:?}", self.view().await);
    }

    /// Until it has looked at the log so often again: it goes on, and does not read.
    pub(crate) async fn until_looked(&self, more: usize) {
        let before = self.source.looks.load(Ordering::SeqCst);
        let has_looked = has_reached(&self.source.looks, before + more);
        self.until_seen(LONG, "it goes on", has_looked).await;
    }

    /// Its lines were admitted, and these rejected.
    pub(crate) async fn chunk_ends(&self, number: u32, rejected: impl Iterator<Item = u64>) {
        let chunk = ChunkId {
            bulk: partition().bulk(),
            number,
        };
        let error = |line| LineError {
            line,
            id: None,
            details: [("amount".to_owned(), "is negative".to_owned())].into(),
            text: None,
        };
        let end = ChunkEnd {
            rejected: rejected.map(error).collect(),
            ..ChunkEnd::default()
        };
        assert!(self.store.finish_chunk(&chunk, end).await.unwrap());
    }

    pub(crate) async fn stop(self) {
        self.stop.send(true).unwrap();
        self.runner.await.unwrap();
    }
}
