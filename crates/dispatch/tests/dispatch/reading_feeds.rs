//! A feed on a real store, from a source that does what the test says: how far it reads, where it begins, and how often it
//! tries in vain.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_core::id::ItemType;
use tollgate_core::ports::{
    Bulks, ChunkEnd, ChunkId, DeadRecord, FeedRecord, FeedSource, FeedView, Feeds, Fetched, Log,
    PartitionId, RecordAnswer, RecordReader, SourceError, SourceResult, Store, Topic,
};
use tollgate_dispatch::{FeedOptions, FeedRunner, FeedStart, Wake};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

/// More than may wait, in chunks of a thousand.
const END: i64 = 20_000;
const AT_ONCE: i64 = 1000;
const LONG: Duration = Duration::from_mins(1);

/// One partition with this many records, or nothing but trouble.
struct Source {
    is_away: bool,
    fetches: AtomicUsize,
    looks: AtomicUsize,
    shown: Mutex<Vec<Vec<(u32, i64)>>>,
}

#[async_trait]
impl FeedSource for Source {
    async fn topic(&self) -> SourceResult<Topic> {
        Ok(Topic {
            id: Some("t".into()),
            partitions: vec![0],
        })
    }

    async fn log(&self, _: u32) -> SourceResult<Log> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        Ok(Log { first: 0, end: END })
    }

    async fn fetch(&self, _: u32, from: i64, _: usize) -> SourceResult<Fetched> {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        if self.is_away {
            return Err(SourceError::Trouble("no broker".into()));
        }
        let next = (from + AT_ONCE).min(END);
        if next == from {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let record = |offset| FeedRecord {
            offset,
            value: Some(b"{}".to_vec()),
            ..FeedRecord::default()
        };
        Ok(Fetched {
            records: (from..next).map(record).collect(),
            next,
            log_end: END,
        })
    }

    async fn dead_letter(&self, _: &[DeadRecord], _: Timestamp) -> SourceResult<()> {
        Ok(())
    }

    async fn answer(&self, _: &[RecordAnswer], _: Timestamp) -> SourceResult<()> {
        Ok(())
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
struct AsItIs;

impl RecordReader for AsItIs {
    fn read(&self, record: &FeedRecord, text: &mut Vec<u8>) -> Result<(), String> {
        let line = PartitionId::line(record.offset);
        text.extend_from_slice(format!("{line} {{}}\n").as_bytes());
        Ok(())
    }
}

struct Running {
    store: Arc<SqliteStore>,
    source: Arc<Source>,
    stop: watch::Sender<bool>,
    runner: JoinHandle<()>,
    _folder: TempDir,
}

impl Running {
    fn start(start: FeedStart, is_away: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteOptions::at(folder.path().join("t.db"));
        let store = Arc::new(SqliteStore::open(options).unwrap());
        let source = Arc::new(Source {
            is_away,
            fetches: AtomicUsize::new(0),
            looks: AtomicUsize::new(0),
            shown: Mutex::default(),
        });
        let options = FeedOptions {
            name: "in".into(),
            topic: "t".into(),
            item_type: ItemType::new("PAYMENT"),
            start,
            answers: false,
            owner: "me".into(),
        };
        let (stop, stopped) = watch::channel(false);
        let runner = FeedRunner::new(
            options,
            Arc::clone(&source) as Arc<dyn FeedSource>,
            Arc::new(AsItIs),
            Arc::clone(&store) as Arc<dyn Store>,
            Wake::default(),
        );
        Self {
            store,
            source,
            stop,
            runner: tokio::spawn(runner.run(stopped)),
            _folder: folder,
        }
    }

    async fn view(&self) -> Option<FeedView> {
        self.store.feeds().await.unwrap().pop()
    }

    async fn position(&self) -> Option<i64> {
        self.view().await?.partitions.first()?.position
    }

    async fn until_at(&self, position: i64) {
        let reached = async {
            while self.position().await != Some(position) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let reached = tokio::time::timeout(LONG, reached).await;
        assert!(reached.is_ok(), "{:?}", self.view().await);
    }

    /// Until it has looked at the log so often again: it goes on, and does not read.
    async fn until_looked(&self, more: usize) {
        let before = self.source.looks.load(Ordering::SeqCst);
        let looked = async {
            while self.source.looks.load(Ordering::SeqCst) < before + more {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let looked = tokio::time::timeout(LONG, looked).await;
        assert!(looked.is_ok(), "{:?}", self.view().await);
    }

    async fn stop(self) {
        self.stop.send(true).unwrap();
        self.runner.await.unwrap();
    }
}

#[tokio::test]
async fn a_partition_is_not_read_further_while_enough_of_it_waits() {
    let running = Running::start(FeedStart::Earliest, false);
    running.until_at(8 * AT_ONCE).await;
    running.until_looked(3).await;
    assert_eq!(running.position().await, Some(8 * AT_ONCE));
    assert_eq!(running.source.fetches.load(Ordering::SeqCst), 8);
    let partition = PartitionId {
        feed: "in".into(),
        topic: "t".into(),
        number: 0,
    };
    let first = ChunkId {
        bulk: partition.bulk(),
        number: 1,
    };
    let ended = running.store.finish_chunk(&first, ChunkEnd::default());
    assert!(ended.await.unwrap());
    running.until_at(9 * AT_ONCE).await;
    running.until_looked(3).await;
    assert_eq!(running.source.fetches.load(Ordering::SeqCst), 9);
    running.stop().await;
}

#[tokio::test]
async fn a_feed_that_starts_at_the_latest_record_reads_none_before() {
    let running = Running::start(FeedStart::Latest, false);
    running.until_at(END).await;
    let view = running.view().await.unwrap();
    assert_eq!(view.partitions[0].records, 0);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn trouble_is_met_at_growing_intervals_and_moves_nothing() {
    let began = Instant::now();
    let running = Running::start(FeedStart::Earliest, true);
    let tried = async {
        while running.source.fetches.load(Ordering::SeqCst) < 8 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let tried = tokio::time::timeout(Duration::from_hours(1), tried).await;
    assert!(tried.is_ok(), "{:?}", running.view().await);
    let least = [1, 2, 4, 8, 16, 30, 30].iter().sum();
    assert!(began.elapsed() >= Duration::from_secs(least));
    assert_eq!(running.position().await, Some(0));
    let trouble = running.view().await.unwrap().trouble.unwrap();
    assert_eq!(trouble.what, "no broker");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn positions_are_shown_to_the_brokers_tools_and_a_refusal_stops_nothing() {
    let running = Running::start(FeedStart::Latest, false);
    let shown = async {
        while running.source.shown.lock().unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let shown = tokio::time::timeout(Duration::from_hours(1), shown).await;
    let view = running.view().await.unwrap();
    assert!(shown.is_ok(), "it is not tried again: {view:?}");
    let last = running.source.shown.lock().unwrap()[1].clone();
    assert_eq!(last, [(0, END)]);
    assert_eq!((view.paused, view.trouble), (None, None));
    running.stop().await;
}
