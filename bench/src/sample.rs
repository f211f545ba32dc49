//! What one measurement found; travels as JSON from the measuring process to the report.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Sample {
    /// Items, slots, flows, rows or appends.
    pub(crate) count: u32,
    pub(crate) wall_secs: f64,
    pub(crate) cpu_secs: f64,
    /// The process's peak of resident memory.
    pub(crate) peak_mib: f64,
    /// Commits that wrote something, where they can be counted.
    pub(crate) commits: Option<u32>,
    /// The time of the last tenth over that of the first.
    pub(crate) last_over_first: Option<f64>,
    /// Written to the write-ahead log of PostgreSQL.
    pub(crate) wal_bytes: Option<f64>,
    /// Of single claims or steps, where they were timed.
    pub(crate) latency: Option<Latency>,
    /// Until all of it was acknowledged, where that comes before the end of the work.
    pub(crate) acknowledged_secs: Option<f64>,
    /// The longest single step.
    pub(crate) longest_ms: Option<f64>,
    /// Items that were moved into the archive meanwhile.
    pub(crate) moved: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Sample {
    pub(crate) fn per_second(&self) -> f64 {
        f64::from(self.count) / self.wall_secs
    }
}
