//! What one measuring process is asked to do; travels as JSON on its command line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// W1: a file of payments through parsing and `admit`.
    Intake { input: PathBuf, count: u32 },
    /// The same on a copy of a database.
    IntakeFrom {
        start: PathBuf,
        input: PathBuf,
        count: u32,
    },
    /// W1 as its users meet it: the same file through the server's HTTP, until all of it is admitted.
    IntakeHttp { input: PathBuf, count: u32 },
    /// The limit of W1: the same rows by plain statements in one transaction.
    IntakeRows { input: PathBuf, count: u32 },
    /// W4: slots for one instant through `admit`.
    Slots {
        count: u32,
        batch: u32,
        /// Batches in flight.
        at_once: u32,
    },
    /// W4: so many slots are placed anew.
    Replan { count: u32 },
    /// The limit of W4: the same rows by plain statements in one transaction.
    SlotRows { count: u32 },
    /// The peer of W4: the plain way to find a window.
    WindowWalk { count: u32, per_window: u32 },
    /// W5: three-step flows, so many at once.
    Flows { count: u32, at_once: u32 },
    /// A limit of W5: bare journal rows, so many per commit.
    JournalRows { count: u32, per_commit: u32 },
    /// A limit of W5: 4 KiB appended and made durable, one by one.
    Appends { count: u32 },
}
