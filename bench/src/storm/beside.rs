//! W10: what a job over many held payments does to a storm beside it. The same storm without and with the job, one after
//! the other in each round.

use std::fs::File;
use std::io::{BufWriter, Write, stderr};
use std::net::SocketAddr;
use std::path::Path;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{LIMITS, Seen, Storm};
use crate::arguments::Size;
use crate::http;
use crate::measure::http::{judged, upload};
use crate::process::{PACE, Process};
use crate::report::table::{Figures, markdown, one_digit, percent, two_digits, verdict, whole};
use crate::stopwatch::{self, Lap};

/// Turns may be used so much later beside a job, in the mean.
const LATER_MS: f64 = 1.0;
const DROPPED: f64 = 0.01;
/// How long after the last line the payments are late, and so held.
const HELD_AFTER: Duration = Duration::from_secs(10);
/// Payments of the file that are certainly taken in, in a second.
const TAKEN_IN_PER_SECOND: u64 = 5_000;

/// One storm, and the job beside it if there was one.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) seen: Seen,
    preview_secs: f64,
    /// Items that the job had looked at when the storm was over, and how fast.
    done: f64,
    per_second: f64,
    /// The longest lock wait that was seen, where the store has locks.
    pub(crate) lock_wait_ms: f64,
}

pub(crate) fn held(size: Size) -> u32 {
    size.pick(2_000, 100_000)
}

/// Payments are held on the same server first; with the first arrival of the storm a job releases them.
pub(crate) fn strike(size: Size, url: &str, scratch: &Path, with_job: bool) -> Result<Beside> {
    let mut job = None;
    let seen = Storm::of(size, LIMITS[1]).brief().strike(scratch, |bank| {
        let server = Process::serve(url, bank, "sweep.interval_secs = 1")?;
        hold(server.address, held(size), scratch)?;
        let (door, bank) = (server.address, bank.to_owned());
        job = with_job.then(|| spawn(move || release(door, &bank)));
        Ok(vec![server])
    })?;
    let job = job.map_or(Ok(Beside::default()), joined)?;
    let beside = Beside { seen, ..job };
    writeln!(stderr(), "{beside:?}")?;
    Ok(beside)
}

fn joined(job: JoinHandle<Result<Beside>>) -> Result<Beside> {
    let ended = job.join();
    ended.map_err(|_| anyhow::anyhow!("the job's thread has died"))?
}

/// The lane is paused until all of them are late.
fn hold(door: SocketAddr, count: u32, scratch: &Path) -> Result<()> {
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
fn release(door: SocketAddr, bank: &str) -> Result<Beside> {
    let bank: SocketAddr = bank.trim_start_matches("http://").parse()?;
    while http::get(bank, "/sandbox/ledger")?["arrivals"] == 0 {
        sleep(PACE);
    }
    let mut wish = json!({"act": "release", "filter": {"held": true}, "dryRun": true});
    let lap = Lap::begin()?;
    let preview = http::post(door, "/admin/jobs", &wish)?;
    let preview_secs = lap.wall().as_secs_f64();
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
        ..Beside::default()
    })
}

/// `without` and `with` have a storm of each round.
pub(crate) fn section(size: Size, without: &[Beside], with: &[Beside]) -> String {
    let late = |of: &[Beside]| Figures::new(of.iter().map(|it| it.seen.turn_late_ms).collect());
    let later = late(with).median() - late(without).median();
    let dropped = share(with).median();
    let lock_wait = with.iter().map(|it| it.lock_wait_ms).fold(0.0, f64::max);
    let head = [
        "job",
        "arrivals",
        "worst sliding second",
        "turn used late, mean ms",
        "turns dropped",
        "longest lock wait seen, ms",
        "preview s",
        "items done",
        "items a second",
    ];
    let small = size.pick(" A small run.", "");
    format!(
        "## W10 a job beside a storm\n\n\
         A storm as in W3 under {limit} a second, of {payments} payments, without a job and with one that releases {held} held payments from the first arrival on, \
         one after the other in each round. How late a turn is used is the gate's own measure. Lock waits are looked for every few \
         milliseconds on PostgreSQL; SQLite has none.{small}\n\n{table}\n\
         Medians: {later} ms later in the mean ({at_most}: at most {LATER_MS}), {dropped} of turns dropped ({below}: below 1 %), longest lock wait \
         {lock_wait} ms ({short}: at most 50).\n",
        limit = LIMITS[1],
        payments = whole(f64::from(Storm::of(size, LIMITS[1]).brief().payments)),
        held = whole(f64::from(held(size))),
        table = markdown(head, &[row("none", without), row("release", with)]),
        later = two_digits(later),
        at_most = verdict(later <= LATER_MS),
        below = verdict(dropped < DROPPED),
        dropped = percent(dropped),
        short = verdict(lock_wait <= 50.0),
        lock_wait = one_digit(lock_wait),
    )
}

/// Of turns, dropped.
fn share(of: &[Beside]) -> Figures {
    let one = |it: &Beside| it.seen.turns_dropped / it.seen.arrivals.max(1.0);
    Figures::new(of.iter().map(one).collect())
}

fn row(job: &str, of: &[Beside]) -> [String; 9] {
    let figures = |figure: fn(&Beside) -> f64| Figures::new(of.iter().map(figure).collect());
    [
        job.to_owned(),
        figures(|it| it.seen.arrivals).show(whole),
        figures(|it| it.seen.worst_second).show(whole),
        figures(|it| it.seen.turn_late_ms).show(two_digits),
        figures(|it| it.seen.turns_dropped).show(whole),
        figures(|it| it.lock_wait_ms).show(one_digit),
        figures(|it| it.preview_secs).show(two_digits),
        figures(|it| it.done).show(whole),
        figures(|it| it.per_second).show(one_digit),
    ]
}
