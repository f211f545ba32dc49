//! The one home of node time in the benchmarks: wall time, CPU time and peak memory of this
//! process, and the marks at a tenth and at nine tenths of the work.

use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tollgate_core::Timestamp;

use crate::sample::Sample;

/// The kernel's ticks per second in `/proc/self/stat`: 100 on every Linux we know.
const TICKS_PER_SECOND: f64 = 100.0;

/// Runs, and can be stopped while something is prepared that is not to be measured.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    wall: Duration,
    cpu_secs: f64,
}

impl Stopwatch {
    /// Measures a piece of work and adds it to what was measured before.
    pub(crate) fn time<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let lap = Lap::begin()?;
        let done = work()?;
        lap.end(self)?;
        Ok(done)
    }

    pub(crate) fn wall(&self) -> Duration {
        self.wall
    }

    pub(crate) fn sample(&self, count: u32) -> Result<Sample> {
        Ok(Sample {
            count,
            wall_secs: self.wall.as_secs_f64(),
            cpu_secs: self.cpu_secs,
            peak_mib: peak_mib()?,
            ..Sample::default()
        })
    }
}

/// A stretch that is being measured; for work that a closure cannot hold.
#[derive(Debug)]
pub(crate) struct Lap {
    began: Instant,
    cpu_secs: f64,
}

impl Lap {
    pub(crate) fn begin() -> Result<Self> {
        Ok(Self {
            cpu_secs: cpu_secs()?,
            began: now(),
        })
    }

    pub(crate) fn wall(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn end(self, watch: &mut Stopwatch) -> Result<()> {
        watch.wall += self.began.elapsed();
        watch.cpu_secs += cpu_secs()? - self.cpu_secs;
        Ok(())
    }

    pub(crate) fn sample(self, count: u32) -> Result<Sample> {
        let mut watch = Stopwatch::default();
        self.end(&mut watch)?;
        watch.sample(count)
    }
}

/// How far work has come that many tasks do together.
#[derive(Debug)]
pub(crate) struct Progress {
    began: Instant,
    total: u32,
    done: AtomicU32,
    first_tenth: OnceLock<Duration>,
    nine_tenths: OnceLock<Duration>,
}

impl Progress {
    pub(crate) fn begin(total: u32) -> Self {
        Self {
            began: now(),
            total,
            done: AtomicU32::new(0),
            first_tenth: OnceLock::new(),
            nine_tenths: OnceLock::new(),
        }
    }

    pub(crate) fn add(&self, done: u32) {
        let done = self.done.fetch_add(done, Ordering::SeqCst) + done;
        if done >= self.total / 10 {
            self.first_tenth.get_or_init(|| self.began.elapsed());
        }
        if done >= self.total - self.total / 10 {
            self.nine_tenths.get_or_init(|| self.began.elapsed());
        }
    }

    /// Asked right after the last one was done.
    pub(crate) fn last_over_first(&self) -> Option<f64> {
        let last = self.began.elapsed().checked_sub(*self.nine_tenths.get()?)?;
        Some(last.as_secs_f64() / self.first_tenth.get()?.as_secs_f64())
    }
}

/// A day that the checks against the time accept and that no benchmark lives to see.
pub(crate) fn day_ahead() -> String {
    const AHEAD: Duration = Duration::from_hours(24 * 30);
    (wall() + AHEAD).strftime("%Y-%m-%d").to_string()
}

/// What the clock on the wall shows.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the benchmarks' one home of node time"
)]
pub(crate) fn wall() -> Timestamp {
    Timestamp::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the benchmarks' one home of node time"
)]
fn now() -> Instant {
    Instant::now()
}

fn cpu_secs() -> Result<f64> {
    cpu_secs_of("self")
}

/// User and system time of all threads of a process so far.
pub(crate) fn cpu_secs_of(process: &str) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may hold spaces; behind it, utime is field 11 and stime field 12.
    let (_, fields) = stat.rsplit_once(')').context("/proc/…/stat is odd")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|word| word.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS_PER_SECOND)
}

fn peak_mib() -> Result<f64> {
    memory_mib_of("self", "VmHWM:")
}

/// `VmHWM:` is the peak of resident memory, `VmRSS:` what it is now.
pub(crate) fn memory_mib_of(process: &str, which: &str) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let memory = status
        .lines()
        .find_map(|line| line.strip_prefix(which))
        .and_then(|rest| rest.split_whitespace().next())
        .with_context(|| format!("/proc/…/status has no {which}"))?;
    Ok(memory.parse::<f64>()? / 1024.0)
}
