//! W3: many payments due in one instant, one limit, and a bank that keeps books of its own. Server
//! and bank are processes of their own; what counts is what the bank saw.

pub(crate) mod beside;
pub(crate) mod report;
mod seen;

use std::net::SocketAddr;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use tollgate_core::Timestamp;

pub(crate) use seen::Seen;

use crate::arguments::Size;
use crate::http;
use crate::measure::http::{judged, upload};
use crate::payments;
use crate::process::Process;
use crate::stopwatch;

/// Sends a second; the bank refuses what is more.
pub(crate) const LIMITS: [u32; 3] = [50, 500, 1000];
const WINDOW_SECS: u32 = 4;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Storm {
    pub(crate) payments: u32,
    pub(crate) limit: u32,
    /// The API that the bank speaks.
    api: &'static str,
    /// How long the bank is watched from the instant on.
    pub(crate) watched: Duration,
    /// How long before the instant everything is sent in.
    lead: Duration,
}

impl Storm {
    pub(crate) fn of(size: Size, limit: u32) -> Self {
        Self {
            payments: size.pick(5_000, 100_000),
            limit,
            api: "contract",
            watched: Duration::from_secs(size.pick(10, 30)),
            lead: Duration::from_secs(size.pick(20, 45)),
        }
    }

    /// With a third more payments than the limit lets through while the bank is watched, and so sent in more quickly.
    pub(crate) fn brief(self) -> Self {
        let watched_secs = u32::try_from(self.watched.as_secs()).unwrap_or(u32::MAX);
        Self {
            payments: self.limit * watched_secs / 3 * 4,
            lead: Duration::from_secs(15),
            ..self
        }
    }

    /// At a bank that speaks another API.
    pub(crate) const fn at(self, api: &'static str) -> Self {
        Self { api, ..self }
    }

    /// `start` starts the nodes, given the URL of the bank; the first takes everything in.
    pub(crate) fn strike(
        self,
        scratch: &Path,
        start: impl FnOnce(&str) -> Result<Vec<Process>>,
    ) -> Result<Seen> {
        let bank = Process::bank_as(self.limit, self.api)?;
        let nodes = start(&bank.url())?;
        let door = nodes[0].address;
        set_limit(door, self.limit)?;
        let instant = stopwatch::wall() + self.lead;
        let input = scratch.join("storm.ndjson");
        payments::write_due(&input, self.payments, instant)?;
        let file = upload(door, &input)?;
        let view = judged(door, &file)?;
        ensure!(view["accepted"] == self.payments, "not all: {view}");
        let early = until(instant);
        ensure!(!early.is_zero(), "not all were taken in before the instant");
        sleep(early);
        let before = memory(&nodes)?;
        sleep(until(instant + self.watched));
        let after = memory(&nodes)?;
        let mut seen = Seen::by(bank.address, Some((door, &file)), self.limit)?;
        seen.memory = [before, after, peak(&nodes)?];
        Ok(seen)
    }
}

/// So many sends a second on every gateway of [`Process::serve`].
pub(crate) fn set_limit(door: SocketAddr, limit: u32) -> Result<()> {
    let body = json!({
        "configName": "default", "maxPerSecond": limit,
        "maxPerWindow": limit * WINDOW_SECS, "windowSizeSecs": WINDOW_SECS,
        "reason": "a storm",
    });
    http::post(door, "/admin/rate-limit/config", &body).map(drop)
}

fn until(time: Timestamp) -> Duration {
    let left = time.duration_since(stopwatch::wall());
    Duration::try_from(left).unwrap_or_default()
}

fn memory(nodes: &[Process]) -> Result<f64> {
    nodes.iter().map(Process::memory_mib).sum()
}

fn peak(nodes: &[Process]) -> Result<f64> {
    nodes.iter().map(Process::peak_mib).sum()
}
