//! The measurements, each in a process of its own. They report what they found and judge nothing.

mod disk;
mod flows;
pub(crate) mod http;
pub(crate) mod intake;
pub(crate) mod replan;
pub(crate) mod rows;
pub(crate) mod slots;
pub(crate) mod target;
mod window_walk;

use std::path::Path;

use anyhow::Result;

use crate::payments;
use crate::sample::Sample;
use crate::task::Task;

/// Items per batch in W1, in the limits, and in the larger half of W4.
pub(crate) const BATCH: u32 = 1000;
/// The steps of a flow in W5.
pub(crate) const STEPS: u32 = flows::STEPS;

/// `dir` is an empty folder.
pub(crate) async fn perform(task: &Task, dir: &Path) -> Result<Sample> {
    match task {
        Task::Intake { input, count } => intake::measure(dir, input.clone(), *count).await,
        Task::IntakeFrom {
            start,
            input,
            count,
        } => {
            std::fs::copy(start, target::file(dir))?;
            intake::measure(dir, input.clone(), *count).await
        }
        Task::IntakeHttp { input, count } => http::measure(dir, input, *count),
        Task::IntakeRows { input, count } => {
            let batch = usize::try_from(BATCH)?;
            let batches = payments::read(input, batch, target::lane_name())?;
            rows::measure(dir, batches, *count).await
        }
        Task::Slots {
            count,
            batch,
            at_once,
        } => {
            let load = slots::Load {
                count: *count,
                batch: *batch,
                at_once: *at_once,
            };
            slots::measure(dir, load).await
        }
        Task::Replan { count } => {
            let store = target::open_store(dir).await?;
            slots::ask_for_all(
                std::sync::Arc::clone(&store) as _,
                slots::Load::filling(*count),
            )
            .await?;
            replan::measure(&*store, *count).await
        }
        Task::SlotRows { count } => {
            let starts = (0..*count).step_by(usize::try_from(BATCH)?);
            let batches = starts.map(|start| slots::items(start..(start + BATCH).min(*count)));
            rows::measure(dir, batches, *count).await
        }
        Task::WindowWalk { count, per_window } => window_walk::measure(dir, *count, *per_window),
        Task::Flows { count, at_once } => flows::measure(dir, *count, *at_once).await,
        Task::JournalRows { count, per_commit } => disk::journal_rows(dir, *count, *per_commit),
        Task::Appends { count } => disk::appends(dir, *count),
    }
}
