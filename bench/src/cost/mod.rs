//! W9: what one payment costs, from a line in a file to PROCESSING, on the embedded engine. Server and bank are
//! processes of their own; rows and bytes are counted by the database or in its files, so they are
//! nearly the same on every machine.

pub(crate) mod postgres;
pub(crate) mod report;
pub(crate) mod sqlite;

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::http;
use crate::measure::http::{judged, upload};
use crate::payments;
use crate::process::Process;
use crate::stopwatch;

/// Payments of one round.
pub(crate) const COUNT: u32 = 4_000;
/// Sends a second: so few that even a busy machine uses every turn. One that is missed is given again, and costs again.
const LIMIT: u32 = 200;
/// Between two looks whether all have ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Both stores: what has ended, and flows that still run.
const ENDED: &str = "SELECT count(*) FROM item_queue WHERE finished_at IS NOT NULL";
/// Events are on, and brokers take none: what a move writes, without what its publication deletes.
pub(crate) const EVENTS: &str =
    "events = {kind = \"kafka\", brokers = [\"127.0.0.1:9\"], topic = \"events\"}";
pub(crate) const EVENTS_NOTE: &str =
    " With events on, brokers take none: their rows are kept, and their deletion is not counted.";
const RUNNING: &str = "SELECT count(*) FROM flow WHERE state IN ('PENDING', 'LIVE')";

/// What all payments of a round have cost together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    /// Rows inserted, updated and deleted.
    pub(crate) row_versions: f64,
    pub(crate) wal_bytes: f64,
    /// What the database has grown by once it is vacuumed.
    pub(crate) kept_bytes: f64,
}

/// A server and its bank.
struct Stage {
    bank: Process,
    server: Process,
}

impl Stage {
    fn serve(store: &str, more: &str) -> Result<Self> {
        let bank = Process::bank(LIMIT)?;
        let server = Process::serve(store, &bank.url(), more)?;
        Ok(Self { bank, server })
    }

    /// Sets the limit, which is not part of the cost.
    fn set_limit(&self) -> Result<()> {
        let body = json!({
            "configName": "default", "maxPerSecond": LIMIT,
            "maxPerWindow": LIMIT, "windowSizeSecs": 1, "reason": "to count what payments cost",
        });
        http::post(self.server.address, "/admin/rate-limit/config", &body).map(drop)
    }

    /// Hands in a file of payments that are due at once.
    fn hand_in(&self, folder: &Path) -> Result<()> {
        let input = folder.join("cost.ndjson");
        payments::write_due(&input, COUNT, stopwatch::wall())?;
        let door = self.server.address;
        let view = judged(door, &upload(door, &input)?)?;
        ensure!(view["accepted"] == COUNT, "not all: {view}");
        Ok(())
    }

    /// By the bank's own ledger, each payment was made once.
    fn check(&self) -> Result<()> {
        let ledger = http::get(self.bank.address, "/sandbox/ledger")?;
        ensure!(ledger["doubles"] == 0, "payments were made twice: {ledger}");
        ensure!(ledger["arrivals"] == COUNT, "not once each: {ledger}");
        Ok(())
    }
}
