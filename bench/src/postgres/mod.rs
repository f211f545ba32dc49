//! Benchmarks of the PostgreSQL store: one private server per run, a fresh database for each
//! measurement, and the limits and peers on that same server.

mod bare;
mod claims;
mod copy;
mod drain;
pub(crate) mod fill;
mod flows;
mod lock_waits;
mod mover;
mod peers;
mod report;
mod rounds;
pub(crate) mod server;
pub(crate) mod target;
mod task;

use anyhow::Result;

pub(crate) use report::run;
pub(crate) use task::{Phase, Task};

use crate::measure::slots::{self, Load};
use crate::measure::{BATCH, http, intake, replan};
use crate::payments;
use crate::sample::Sample;

/// What a process of its own is asked to do on the database at `url`.
pub(crate) async fn perform(phase: Phase, task: &Task, url: &str) -> Result<Sample> {
    match phase {
        Phase::Prepare => prepare(task, url).await.map(|()| Sample::default()),
        Phase::Measure => measure(task, url).await,
    }
}

async fn prepare(task: &Task, url: &str) -> Result<()> {
    match task {
        // Opening a store makes the tables and indexes.
        Task::Intake { .. }
        | Task::IntakeHttp { .. }
        | Task::IntakeCopy { .. }
        | Task::Slots { .. }
        | Task::SlotCopy { .. } => target::planned_lane(url).await.map(drop),
        Task::Replan { count } => {
            let store = target::planned_lane(url).await?;
            slots::ask_for_all(store, Load::filling(*count))
                .await
                .map(drop)
        }
        Task::Drain { count } | Task::Flows { count, .. } | Task::Bare { count } => {
            target::open_wide(url).await?;
            fill::due(url, *count).await
        }
        Task::Claims { queued, .. } => {
            target::open_wide(url).await?;
            fill::tomorrow(url, *queued).await
        }
        Task::ClaimsBeside { queued, ended, .. } => {
            target::open_wide(url).await?;
            fill::tomorrow(url, *queued).await?;
            crate::ended::fill_postgres(url, *ended).await
        }
        Task::Peer { .. } => unreachable!("peers have programs of their own"),
    }
}

async fn measure(task: &Task, url: &str) -> Result<Sample> {
    match task {
        Task::Intake { input, count } => {
            let store = target::open(url).await?;
            let sample = intake::admit_file(store, input.clone(), *count).await?;
            target::check_rows(url, "SELECT count(*) FROM item_queue", *count).await?;
            Ok(sample)
        }
        Task::IntakeHttp { input, count } => {
            let sample = http::measure_on(url, input, *count)?;
            target::check_rows(url, "SELECT count(*) FROM item_queue", *count).await?;
            Ok(sample)
        }
        Task::IntakeCopy { input, count } => {
            let lane = crate::measure::target::lane_name();
            let batches = payments::read(input, usize::try_from(BATCH)?, lane)?;
            copy::measure(url, batches, *count).await
        }
        Task::Slots {
            count,
            batch,
            at_once,
        } => {
            let load = Load {
                count: *count,
                batch: *batch,
                at_once: *at_once,
            };
            let sample = slots::ask_for_all(target::open(url).await?, load).await?;
            let used = "SELECT sum(used)::bigint FROM lane_window";
            target::check_rows(url, used, *count).await?;
            Ok(sample)
        }
        Task::Replan { count } => replan::measure(&*target::open(url).await?, *count).await,
        Task::SlotCopy { count } => {
            let starts = (0..*count).step_by(usize::try_from(BATCH)?);
            let batches = starts.map(|start| slots::items(start..(start + BATCH).min(*count)));
            copy::measure(url, batches, *count).await
        }
        Task::Drain { count } => drain::measure(url, *count).await,
        Task::Flows {
            count,
            items_per_flow,
        } => flows::measure(url, *count, *items_per_flow).await,
        Task::Bare { count } => bare::measure(url, *count).await,
        Task::Claims { due, claims, .. } => claims::measure(url, *due, *claims).await,
        Task::ClaimsBeside { moving, claims, .. } if *moving => mover::beside(url, *claims).await,
        Task::ClaimsBeside { claims, .. } => claims::measure(url, false, *claims).await,
        Task::Peer { .. } => unreachable!("peers have programs of their own"),
    }
}
