//! W10: what other work does to a storm beside it: a job over many held payments, and the move of many ended ones into
//! the archive. The same storm without and with each of them, one after the other in each round, from the same start.

mod job;
mod moving;
pub(crate) mod report;

use std::io::{Write, stderr};
use std::net::SocketAddr;
use std::path::Path;
use std::thread::{JoinHandle, sleep, spawn};

use anyhow::Result;

use super::{LIMITS, Seen, Storm};
use crate::arguments::{Size, Workload};
use crate::ended;
use crate::http;
use crate::process::{PACE, Process};

/// What is done beside a storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Nothing,
    /// A job that releases held payments, from the first arrival on.
    Release,
    /// The service that moves ended payments into the archive, from its start on.
    Archive,
}

impl Work {
    /// Those of a workload; every storm of it starts with what any of them needs.
    pub(crate) fn of(workload: Workload) -> &'static [Self] {
        match workload {
            Workload::W10Job => &[Self::Nothing, Self::Release],
            Workload::W10Archive => &[Self::Nothing, Self::Archive],
            _ => &[Self::Nothing, Self::Release, Self::Archive],
        }
    }

    /// Days for which ended payments stay where they are.
    fn hot_days(self) -> u32 {
        match self {
            Self::Nothing | Self::Release => ended::STAY_DAYS,
            Self::Archive => ended::HOT_DAYS,
        }
    }
}

/// One storm, and the work beside it if there was one.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) seen: Seen,
    /// Of a job.
    preview_secs: Option<f64>,
    /// Items that were looked at, or moved, while the storm lasted, and how fast.
    done: f64,
    per_second: f64,
    /// Whether the work was over before the storm was.
    was_over: bool,
    /// The longest lock wait that was seen, where the store has locks.
    pub(crate) lock_wait_ms: f64,
}

/// Where a storm strikes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) size: Size,
    /// A store that has the ended payments, if any work of this run moves them.
    pub(crate) url: &'a str,
    pub(crate) scratch: &'a Path,
    /// Of this run.
    pub(crate) works: &'a [Work],
}

pub(crate) fn held(size: Size) -> u32 {
    size.pick(2_000, 100_000)
}

pub(crate) fn strike(place: Place<'_>, work: Work) -> Result<Beside> {
    let Place { size, scratch, .. } = place;
    let mut beside = None;
    let seen = Storm::of(size, LIMITS[1]).brief().strike(scratch, |bank| {
        let hot_days = work.hot_days();
        let more = format!("sweep.interval_secs = 1\nretention.hot_days = {hot_days}");
        let server = Process::serve(place.url, bank, &more)?;
        if place.works.contains(&Work::Release) {
            job::hold(server.address, held(size), scratch)?;
        }
        beside = begin(work, server.address, bank, size);
        Ok(vec![server])
    })?;
    let other = beside.map_or(Ok(Beside::default()), joined)?;
    let beside = Beside { seen, ..other };
    writeln!(stderr(), "{work:?}: {beside:?}")?;
    Ok(beside)
}

type Running = JoinHandle<Result<Beside>>;

fn begin(work: Work, door: SocketAddr, bank: &str, size: Size) -> Option<Running> {
    let bank = bank.to_owned();
    match work {
        Work::Nothing => None,
        Work::Release => Some(spawn(move || job::release(door, &bank))),
        Work::Archive => Some(spawn(move || moving::look(door, &bank, size))),
    }
}

fn joined(work: Running) -> Result<Beside> {
    let ended = work.join();
    ended.map_err(|_| anyhow::anyhow!("the thread of the work beside the storm has died"))?
}

/// Returns with the first payment that arrives.
fn first_arrival(bank: &str) -> Result<()> {
    let bank: SocketAddr = bank.trim_start_matches("http://").parse()?;
    while http::get(bank, "/sandbox/ledger")?["arrivals"] == 0 {
        sleep(PACE);
    }
    Ok(())
}
