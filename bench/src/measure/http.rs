//! W1 through HTTP: a file is streamed to a real `tollgate serve`. The clock stops when every line
//! is admitted; CPU time and the peak of memory are the server's.

use std::net::SocketAddr;
use std::path::Path;
use std::thread::sleep;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::target;
use crate::http;
use crate::process::{PACE, Process};
use crate::sample::Sample;
use crate::stopwatch::Lap;

/// Nobody is paid in here: what is taken in is for a later day.
pub(crate) const NO_BANK: &str = "http://127.0.0.1:9";

/// On SQLite.
pub(super) fn measure(dir: &Path, input: &Path, count: u32) -> Result<Sample> {
    let store = format!("sqlite:{}", target::file(dir).display());
    let server = Process::serve(&store, NO_BANK, "")?;
    let before = target::commits(dir)?;
    let sample = import(&server, input, count)?;
    let commits = target::commits(dir)? - before;
    drop(server);
    target::check_rows(dir, "SELECT count(*) FROM item_queue", count)?;
    Ok(Sample {
        commits: Some(commits),
        ..sample
    })
}

/// On any store.
pub(crate) fn measure_on(store: &str, input: &Path, count: u32) -> Result<Sample> {
    import(&Process::serve(store, NO_BANK, "")?, input, count)
}

/// Streams a file of payments and waits until every line is admitted.
pub(crate) fn import(server: &Process, input: &Path, count: u32) -> Result<Sample> {
    let cpu_before = server.cpu_secs()?;
    let lap = Lap::begin()?;
    let batch = upload(server.address, input)?;
    let acknowledged_secs = Some(lap.wall().as_secs_f64());
    let view = judged(server.address, &batch)?;
    let wall_secs = lap.wall().as_secs_f64();
    ensure!(view["accepted"] == count, "not all were accepted: {view}");
    Ok(Sample {
        count,
        wall_secs,
        cpu_secs: server.cpu_secs()? - cpu_before,
        peak_mib: server.peak_mib()?,
        acknowledged_secs,
        ..Sample::default()
    })
}

/// Returns when the file is durable, with the id of its bulk.
pub(crate) fn upload(address: SocketAddr, input: &Path) -> Result<String> {
    let answer = http::post_file(address, "/payments/bulk", input)?;
    let batch = answer["batchId"].as_str();
    let batch = batch.with_context(|| format!("no batch: {answer}"))?;
    Ok(batch.to_owned())
}

/// Waits until every line is judged.
pub(crate) fn judged(address: SocketAddr, batch: &str) -> Result<Value> {
    loop {
        let view = http::get(address, &format!("/payments/bulk/{batch}"))?;
        if view["state"] == "DONE" {
            return Ok(view);
        }
        sleep(PACE);
    }
}
