//! graphile_worker (Rust) as a peer: `add_raw_jobs`, and its worker with its own batching switched
//! on. Speaks the words of the other peers: `prepare|measure insert|drain URL FILE COUNT`.

use std::fs::{File, read_to_string};
use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use graphile_worker::tokio_postgres::TokioPostgresDatabase;
use graphile_worker::{
    Database, IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, Worker,
    WorkerContext, WorkerOptions,
};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::JoinSet;

const BATCH: usize = 1000;
const IN_FLIGHT: usize = 4;
const CONCURRENCY: usize = 24;
const LOCAL_QUEUE: usize = 500;

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [phase, work, url, file, count] = &words[..] else {
        bail!("usage: prepare|measure insert|drain URL FILE COUNT");
    };
    let count: u64 = count.parse()?;
    let database: Database = TokioPostgresDatabase::from_url(url, 10)?.into();
    let done = Done::default();
    let worker = worker(database, &done).await?;
    if phase == "prepare" {
        if work == "drain" {
            insert(&worker, file, count).await?;
        }
        return Ok(());
    }
    let began = Instant::now();
    match work.as_str() {
        "insert" => insert(&worker, file, count).await?,
        _ => drain(worker, &done, count).await?,
    }
    let wall_secs = began.elapsed().as_secs_f64();
    let sample = serde_json::json!({
        "count": count, "wall_secs": wall_secs, "cpu_secs": cpu_secs()?, "peak_mib": peak_mib()?,
    });
    println!("{sample}");
    Ok(())
}

/// Its tables are made on the way.
async fn worker(database: Database, done: &Done) -> Result<Worker> {
    let options = WorkerOptions::default()
        .database(database)
        .schema("graphile_worker")
        .concurrency(CONCURRENCY)
        .poll_interval(Duration::from_millis(10))
        .local_queue(LocalQueueConfig::default().with_size(LOCAL_QUEUE))
        .complete_job_batch_delay(Duration::from_millis(1))
        .listen_os_shutdown_signals(false)
        .add_extension(done.clone())
        .define_job::<NoOp>();
    options.init().await.map_err(|e| anyhow::anyhow!("{e:?}"))
}

async fn insert(worker: &Worker, file: &str, count: u64) -> Result<()> {
    let mut lines = BufReader::new(File::open(file)?)
        .lines()
        .take(usize::try_from(count)?);
    let mut in_flight = JoinSet::new();
    loop {
        let job = |line: std::io::Result<String>| {
            Ok(RawJobSpec {
                identifier: NoOp::IDENTIFIER.into(),
                payload: serde_json::from_str(&line?)?,
                spec: JobSpec::default(),
            })
        };
        let jobs: Vec<RawJobSpec> = lines.by_ref().take(BATCH).map(job).collect::<Result<_>>()?;
        if jobs.is_empty() {
            break;
        }
        if in_flight.len() == IN_FLIGHT {
            in_flight
                .join_next()
                .await
                .context("some are in flight")??;
        }
        let utils = worker.create_utils();
        in_flight.spawn(async move {
            let added = utils.add_raw_jobs(&jobs).await.expect("jobs can be added");
            assert_eq!(added.len(), jobs.len());
        });
    }
    while let Some(added) = in_flight.join_next().await {
        added?;
    }
    Ok(())
}

/// Until the last job has run and the worker has written what it had gathered.
async fn drain(worker: Worker, done: &Done, count: u64) -> Result<()> {
    let worker = Arc::new(worker);
    let running = Arc::clone(&worker);
    let running = tokio::spawn(async move { running.run().await.map_err(|e| format!("{e:?}")) });
    while done.0.0.load(Ordering::SeqCst) < count {
        done.0.1.notified().await;
        if done.0.0.load(Ordering::SeqCst) % 1000 == 0 {
            ensure!(!running.is_finished(), "the worker has stopped");
        }
    }
    worker.request_shutdown();
    running.await?.map_err(anyhow::Error::msg)
}

/// How many have run, and a word when the last one might have.
#[derive(Debug, Clone, Default)]
struct Done(Arc<(AtomicU64, Notify)>);

#[derive(Serialize, Deserialize)]
struct NoOp {}

impl TaskHandler for NoOp {
    const IDENTIFIER: &'static str = "noop";

    async fn run(self, ctx: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(Done(done)) = ctx.get_ext::<Done>() {
            done.0.fetch_add(1, Ordering::SeqCst);
            done.1.notify_one();
        }
        Ok::<(), String>(())
    }
}

fn cpu_secs() -> Result<f64> {
    let stat = read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("/proc/self/stat is odd")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    Ok(ticks
        .filter_map(|word| word.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0)
}

fn peak_mib() -> Result<f64> {
    let status = read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak
        .and_then(|rest| rest.split_whitespace().next())
        .context("no VmHWM")?;
    Ok(peak.parse::<f64>()? / 1024.0)
}
