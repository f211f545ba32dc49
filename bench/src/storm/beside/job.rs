//! A job beside a storm: payments are held on the same server first; with the first arrival a job releases them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{Beside, first_arrival};
use crate::http;
use crate::measure::http::{judged, upload};
use crate::process::PACE;
use crate::stopwatch::{self, Lap};

/// How long after the last line the payments are late, and so held.
const HELD_AFTER: Duration = Duration::from_secs(10);
/// Payments of the file that are certainly taken in, in a second.
const TAKEN_IN_PER_SECOND: u64 = 5_000;

/// The lane is paused until all of them are late.
pub(super) fn hold(door: SocketAddr, count: u32, scratch: &Path) -> Result<()> {
    let because = json!({"reason": "until they are late"});
    http::post(door, "/admin/lanes/default/pause", &because)?;
    let taken_in = Duration::from_secs(u64::from(count) / TAKEN_IN_PER_SECOND);
    let late = stopwatch::wall() + HELD_AFTER + taken_in;
    let input = scratch.join("held.ndjson");
    let mut file = BufWriter::new(File::create(&input)?);
    for number in 0..count {
        let line = json!({"paymentId": format!("held-{number:08}"), "amount": "1.00",
            "currency": "EUR", "debtor": {"account": "A-1", "name": "Ann"},
            "creditor": {"account": "B-2", "name": "Bob"}, "deadline": late.to_string(),
            "onMissedDeadline": "hold"});
        writeln!(file, "{line}")?;
    }
    file.flush()?;
    let view = judged(door, &upload(door, &input)?)?;
    ensure!(view["accepted"] == count, "not all: {view}");
    while http::get(door, "/admin/held?limit=1")?["count"] != count {
        sleep(PACE);
    }
    http::post(door, "/admin/lanes/default/resume", &because)?;
    Ok(())
}

/// Begins with the storm, and is looked at until the storm is over and its server is gone.
pub(super) fn release(door: SocketAddr, bank: &str) -> Result<Beside> {
    first_arrival(bank)?;
    let mut wish = json!({"act": "release", "filter": {"held": true}, "dryRun": true});
    let lap = Lap::begin()?;
    let preview = http::post(door, "/admin/jobs", &wish)?;
    let preview_secs = Some(lap.wall().as_secs_f64());
    wish["dryRun"] = json!(false);
    wish["digest"] = preview["digest"].clone();
    wish["reason"] = json!("a benchmark");
    let started = http::post(door, "/admin/jobs", &wish)?;
    let job = started["jobId"].as_str().context("no job")?.to_owned();
    let mut last = Value::Null;
    while let Ok(shown) = http::get(door, &format!("/admin/jobs/{job}")) {
        last = shown;
        if last["state"] == "DONE" {
            break;
        }
        sleep(Duration::from_millis(200));
    }
    Ok(Beside {
        preview_secs,
        done: last["done"].as_f64().unwrap_or_default(),
        per_second: last["rate"].as_f64().unwrap_or_default(),
        was_over: last["state"] == "DONE",
        ..Beside::default()
    })
}
