//! The SQLite store: one writer thread with group commit, readers beside it, one process per file.

mod accounts;
mod admission;
mod archive_files;
mod connection;
mod flows;
mod lanes;
mod purge;
mod queue;
mod records;
mod sends;

use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use rusqlite::Connection;
use tollgate_core::gate::DEFAULT_MARGIN;
use tollgate_core::ports::{
    Boot, Reading, SharedClock, StoreConnections, StoreHealth, StoreResult,
};

use crate::clock::{Clock, MovableTime};
use crate::node::{self, Node};
use crate::store_on::StoreOn;
use crate::urgency::Urgency;
use archive_files::ArchiveFiles;
use connection::error::Failed;
use connection::fault::Fault;
use connection::reader::{READERS, Readers};
use connection::value::Us;
use connection::writer::Writer;

/// What can be set about a SQLite store.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    pub path: PathBuf,
    /// The share of a lane's hard limit that the gate keeps free.
    pub gate_margin: rust_decimal::Decimal,
    /// The file may not grow beyond so many pages of 4 KiB; for tests of a full disk.
    pub max_pages: Option<u32>,
    pub time: MovableTime,
    /// Seeds the placement of slots on lanes with `spread: "jitter"`.
    pub seed: u64,
}

impl SqliteOptions {
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            gate_margin: DEFAULT_MARGIN,
            max_pages: None,
            time: MovableTime::default(),
            seed: 0,
        }
    }
}

/// All store ports on SQLite.
pub type SqliteStore = StoreOn<Sqlite>;

pub struct Sqlite {
    writer: Writer,
    readers: Readers,
    archive: ArchiveFiles,
    clock: Clock,
    fault: Fault,
    options: SqliteOptions,
    node: Node,
    /// Held for as long as the store lives: a second process on the file is refused.
    _lock: std::fs::File,
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite")
            .field("path", &self.options.path)
            .finish_non_exhaustive()
    }
}

impl Sqlite {
    /// A write that only the node in force may make.
    async fn write_in_force<T, E>(
        &self,
        urgency: Urgency,
        write: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        Failed: From<E>,
    {
        let ours = self.node.epoch();
        let write = move |c: &Connection| -> Result<T, Failed> {
            if let Some(ours) = ours {
                node::check(ours, flows::epoch_in_force(c)?)?;
            }
            Ok(write(c)?)
        };
        self.writer.write(urgency, write).await
    }
}

#[async_trait]
impl SharedClock for SqliteStore {
    /// A file has one life; whoever restores it has stopped the one process on it.
    async fn read_clock(&self) -> StoreResult<Reading> {
        let now = self.clock.now();
        Ok(Reading { now, timeline: 0 })
    }

    async fn vouch(&self, boot: Option<Boot>) -> StoreResult<()> {
        let clock = self.clock.clone();
        let write = move |c: &Connection| sends::eras::vouch(c, boot.as_ref(), Us(clock.now()));
        self.writer.write(Urgency::Urgent, write).await
    }

    async fn open_era(&self, boot: Option<Boot>) -> StoreResult<()> {
        let clock = self.clock.clone();
        let write = move |c: &Connection| sends::eras::open(c, boot.as_ref(), Us(clock.now()));
        self.writer.write(Urgency::Urgent, write).await
    }
}

#[async_trait]
impl StoreHealth for SqliteStore {
    async fn try_write(&self) -> StoreResult<()> {
        let clock = self.clock.clone();
        let write = move |c: &Connection| {
            c.prepare_cached("UPDATE write_probe SET at = ?1 WHERE one = 1")?
                .execute([clock.now_us()])
                .map(drop)
        };
        self.writer.write(Urgency::Urgent, write).await
    }

    async fn broken(&self) -> String {
        self.fault.said().await
    }

    /// One connection writes; use cases that wait for it share its commits.
    fn connections(&self) -> StoreConnections {
        let waiting = self.writer.waiting();
        StoreConnections {
            most: READERS + 1,
            in_use: self.readers.in_use() + waiting.min(1),
            waiting: waiting.saturating_sub(1),
        }
    }
}
