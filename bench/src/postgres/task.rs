//! What one process is asked to do on PostgreSQL; travels as JSON on its command line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// W1: a file of payments through parsing and `admit`.
    Intake { input: PathBuf, count: u32 },
    /// W1 as its users meet it: the same file through the server's HTTP, until all of it is admitted.
    IntakeHttp { input: PathBuf, count: u32 },
    /// The limit of W1: COPY of the same rows.
    IntakeCopy { input: PathBuf, count: u32 },
    /// W4: slots for one instant through `admit`.
    Slots {
        count: u32,
        batch: u32,
        /// Batches in flight.
        at_once: u32,
    },
    /// W4: so many slots are placed anew.
    Replan { count: u32 },
    /// The limit of W4: COPY of the same rows.
    SlotCopy { count: u32 },
    /// W2 at store level: claim, record the starts, finish.
    Drain { count: u32 },
    /// W2 as the program does it: dispatcher, engine, three steps for each item, done.
    Flows { count: u32, items_per_flow: u32 },
    /// The limit of W2: bare SQL that claims 500 and completes 500.
    Bare { count: u32 },
    /// W6: single claims, timed, on a queue of so many rows.
    Claims { queued: u32, due: bool, claims: u32 },
    /// The same beside so many payments that ended long ago, while they are moved into the archive or while they stay.
    ClaimsBeside {
        queued: u32,
        ended: u32,
        moving: bool,
        claims: u32,
    },
    /// W1 and W2 on another queue.
    Peer {
        peer: Peer,
        work: Work,
        input: PathBuf,
        count: u32,
    },
}

/// In a database that exists: what may come before, and what is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Prepare,
    Measure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Peer {
    GraphileWorker,
    PgBoss,
    GraphileWorkerRs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Work {
    Insert,
    Drain,
}

impl Phase {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Measure => "measure",
        }
    }
}

impl Work {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Drain => "drain",
        }
    }
}
