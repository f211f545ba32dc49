//! Feeds, measured from outside: the same payments as a file through HTTP and as records of a topic, on the same kind of
//! store in the same run; and a steady stream of records. Nothing is sent: the payments are for a later day.

mod kafka;
pub(crate) mod report;

use std::io::{Write, stderr};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::arguments::Size;
use crate::http;
use crate::measure::http::{NO_BANK, import};
use crate::payments::{self, Ids};
use crate::process::{PACE, Process};
use crate::stopwatch::{Lap, day_ahead};
use kafka::Kafka;

const TOPIC: &str = "payments";
/// The mock keeps five megabytes of a partition, so there are many where all records wait.
const PARTITIONS: u32 = 24;
/// Of the steady stream.
const STEADY_PARTITIONS: u32 = 4;
const PER_SECOND: u32 = 1000;
const TICKS_PER_SECOND: u32 = 10;
/// How often a feed is looked at whose clock is to begin: every look costs the server something, so while it is measured it is
/// asked as often as about a file (`PACE`).
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Some ten minutes of the latter.
const MOST_LOOKS: u32 = 12_000;

/// What one round came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    pub(crate) random: Pair,
    pub(crate) ascending: Pair,
    pub(crate) steady: Steady,
}

/// The same payments by both ways.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) file_per_second: f64,
    pub(crate) feed_per_second: f64,
    pub(crate) feed_cpu_secs: f64,
    pub(crate) feed_peak_mib: f64,
}

/// The worst lag of each half, and memory in the middle and at the end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Steady {
    pub(crate) first_lag: f64,
    pub(crate) second_lag: f64,
    pub(crate) middle_mib: f64,
    pub(crate) end_mib: f64,
}

pub(crate) fn count(size: Size) -> u32 {
    size.pick(20_000, 200_000)
}

pub(crate) fn steady_secs(size: Size) -> u32 {
    size.pick(10, 45)
}

/// Stores of the same kind: for the file and for the topic, with ids of both kinds.
#[derive(Debug, Clone)]
pub(crate) struct Stores {
    pub(crate) random: [String; 2],
    pub(crate) ascending: [String; 2],
}

/// The steady stream goes to the server that has just taken in a topic: its caches are full by then, so that memory which
/// grows is a leak.
pub(crate) fn round(size: Size, stores: &Stores, folder: &Path) -> Result<Round> {
    let (random, mut served) = pair(size, &stores.random, folder, Ids::Random)?;
    let steady = served.steady(folder, steady_secs(size))?;
    drop(served);
    let (ascending, _) = pair(size, &stores.ascending, folder, Ids::Ascending)?;
    let round = Round {
        random,
        ascending,
        steady,
    };
    writeln!(stderr(), "{round:?}")?;
    Ok(round)
}

fn pair(size: Size, stores: &[String; 2], folder: &Path, ids: Ids) -> Result<(Pair, Served)> {
    let (count, input) = (count(size), folder.join(format!("{ids:?}.ndjson")));
    payments::write_for(&input, count, ids, &day_ahead())?;
    let [file_store, feed_store] = stores;
    let file = import(&Process::serve(file_store, NO_BANK, "")?, &input, count)?;
    let mut served = Served::start(feed_store)?;
    let pair = served.take_in(&input, count, file.per_second())?;
    Ok((pair, served))
}

/// A broker, and a server that reads its topic.
struct Served {
    kafka: Kafka,
    server: Process,
}

impl Served {
    /// The server has all partitions of the topic.
    fn start(store: &str) -> Result<Self> {
        let mut kafka = Kafka::start()?;
        kafka.create(TOPIC, PARTITIONS)?;
        let broker = &kafka.broker;
        let feed = format!(
            "feeds.in.kind = \"kafka\"\nfeeds.in.brokers = [\"{broker}\"]\nfeeds.in.topic = \"{TOPIC}\"\n"
        );
        let server = Process::serve(store, NO_BANK, &feed)?;
        until(&server, PACE, is_held)?;
        Ok(Self { kafka, server })
    }

    /// From the first look that finds records until every record has its slot: the rate of the rest. A feed that is resumed
    /// begins within two seconds, which is not its rate.
    fn take_in(&mut self, input: &Path, count: u32, file_per_second: f64) -> Result<Pair> {
        let server = &self.server;
        let because = json!({"reason": "a benchmark"});
        http::post(server.address, "/admin/feeds/in/pause", &because)?;
        self.kafka.produce(TOPIC, input, count, PARTITIONS)?;
        let cpu = server.cpu_secs()?;
        http::post(server.address, "/admin/feeds/in/resume", &because)?;
        let begun = until(server, LOOK_EVERY, |feed| feed["records"] != 0)?;
        let lap = Lap::begin()?;
        let before = u32::try_from(begun["records"].as_u64().unwrap_or(0))?;
        let is_done = |feed: &Value| feed["records"] == count && is_planned(feed);
        until(server, PACE, is_done)?;
        let secs = lap.wall().as_secs_f64();
        let accepted = accepted(server)?;
        ensure!(accepted == u64::from(count), "{accepted} were accepted");
        Ok(Pair {
            file_per_second,
            feed_per_second: f64::from(count - before) / secs,
            feed_cpu_secs: server.cpu_secs()? - cpu,
            feed_peak_mib: server.peak_mib()?,
        })
    }

    fn steady(&mut self, folder: &Path, secs: u32) -> Result<Steady> {
        let input = folder.join("steady.ndjson");
        // Other ids than those that were taken in before, which are random.
        payments::write_for(&input, secs * PER_SECOND, Ids::Ascending, &day_ahead())?;
        let before = records(&self.server)?;
        let (mut found, lap) = (Steady::default(), Lap::begin()?);
        for tick in 1..=secs * TICKS_PER_SECOND {
            let few = PER_SECOND / TICKS_PER_SECOND;
            self.kafka.produce(TOPIC, &input, few, STEADY_PARTITIONS)?;
            let due = Duration::from_secs(1) * tick / TICKS_PER_SECOND;
            sleep(due.saturating_sub(lap.wall()));
            if tick % TICKS_PER_SECOND != 0 {
                continue;
            }
            let read = records(&self.server)? - before;
            let lag = u64::from(tick * few).saturating_sub(read);
            let lag = f64::from(u32::try_from(lag)?);
            if tick <= secs * TICKS_PER_SECOND / 2 {
                found.first_lag = found.first_lag.max(lag);
                found.middle_mib = self.server.memory_mib()?;
            } else {
                found.second_lag = found.second_lag.max(lag);
            }
        }
        found.end_mib = self.server.memory_mib()?;
        Ok(found)
    }
}

fn records(server: &Process) -> Result<u64> {
    feed(server)?["records"].as_u64().context("no records")
}

fn feed(server: &Process) -> Result<Value> {
    let feeds = http::get(server.address, "/admin/feeds")?;
    let feed = &feeds["feeds"][0];
    let ill = feed["paused"] == true && feed["pausedBy"] == "feed";
    ensure!(!ill && feed["trouble"].is_null(), "{feed}");
    Ok(feed.clone())
}

fn until(server: &Process, pace: Duration, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
    for _ in 0..MOST_LOOKS {
        let feed = feed(server)?;
        if is_so(&feed) {
            return Ok(feed);
        }
        sleep(pace);
    }
    bail!("the feed does not get there: {}", feed(server)?)
}

fn partitions(feed: &Value) -> &[Value] {
    feed["partitions"].as_array().map_or(&[], Vec::as_slice)
}

fn is_held(feed: &Value) -> bool {
    let all = partitions(feed);
    !all.is_empty() && all.iter().all(|one| one["owner"].is_string())
}

fn is_planned(feed: &Value) -> bool {
    partitions(feed).iter().all(|one| one["waitingChunks"] == 0)
}

fn accepted(server: &Process) -> Result<u64> {
    let mut accepted = 0;
    for partition in 0..PARTITIONS {
        let import = format!("/payments/bulk/feed.in.{TOPIC}.{partition}");
        let view = http::get(server.address, &import)?;
        accepted += view["accepted"].as_u64().unwrap_or(0);
    }
    Ok(accepted)
}
