//! Where the records of a feed come from: a broker, as the services see it. It remembers nothing: the position
//! is the store's.

use async_trait::async_trait;
use thiserror::Error;

use crate::Timestamp;

#[async_trait]
pub trait FeedSource: Send + Sync {
    /// The topic as it is now.
    async fn topic(&self) -> SourceResult<Topic>;

    /// Which positions a partition's log holds: from the first on, up to and without the end.
    async fn log(&self, partition: u32) -> SourceResult<Log>;

    /// The committed records from a position on, waiting a moment if there are none. About `max_bytes`; a single record may
    /// be larger.
    async fn fetch(&self, partition: u32, from: i64, max_bytes: usize) -> SourceResult<Fetched>;

    /// Writes records that cannot be read where they can be found again; durable when this returns.
    async fn dead_letter(&self, letters: &[DeadRecord], now: Timestamp) -> SourceResult<()>;

    /// Answers what was rejected of a partition; durable when this returns.
    async fn answer(
        &self,
        partition: u32,
        answers: &[RecordAnswer],
        now: Timestamp,
    ) -> SourceResult<()>;

    /// Shows the broker's own tools where partitions stand, if that is configured. For people only: never read back.
    async fn show_positions(&self, positions: &[(u32, i64)]) -> SourceResult<()>;
}

/// Turns records into the lines of a chunk, by the kind of item that they hold.
pub trait RecordReader: Send + Sync + std::fmt::Debug {
    /// Appends the record's line. A record that cannot be read appends nothing and says why.
    fn read(&self, record: &FeedRecord, text: &mut Vec<u8>) -> Result<(), String>;
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topic {
    /// Another one when the topic was created again; none if the broker gives none.
    pub id: Option<String>,
    pub partitions: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    pub first: i64,
    pub end: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fetched {
    pub records: Vec<FeedRecord>,
    /// Where the next fetch begins: after everything that was looked at, records or not.
    pub next: i64,
    pub log_end: i64,
    /// Where the next fetch would wait: what lies from here on belongs to transactions that are still open.
    pub committed_end: i64,
}

impl Fetched {
    /// What a fetch has found that began where this one ends.
    pub fn append(&mut self, mut more: Self) {
        self.records.append(&mut more.records);
        self.next = more.next;
        (self.log_end, self.committed_end) = (more.log_end, more.committed_end);
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeedRecord {
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    /// None is a tombstone.
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl FeedRecord {
    /// The text of a header, in whichever case its producer writes the name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value.as_deref()?).ok()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadRecord {
    pub partition: u32,
    pub record: FeedRecord,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordAnswer {
    /// The item's id, if it could be read.
    pub key: Option<String>,
    pub body_json: String,
    /// Says less, for a topic that rejects the other because of its size.
    pub short_json: String,
}

pub type SourceResult<T> = Result<T, SourceError>;

/// By what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceError {
    /// Tried again after a pause: it may pass, or a person puts it right outside.
    #[error("{0}")]
    Trouble(String),
    /// A right is missing. Trying again does not help: a person grants it, and says so.
    #[error("{0}")]
    Denied(String),
    /// The position is not in the log.
    #[error("{0}")]
    OutOfRange(String),
}
