//! W10 on PostgreSQL: other work beside a storm, and how long anyone waited for a lock.

use anyhow::Result;

use super::super::lock_waits::LockWaits;
use super::super::target;
use super::Plan;
use crate::arguments::Workload;
use crate::ended;
use crate::storm::beside::report::{Cell, section as text};
use crate::storm::beside::{Beside, Place, Work, strike};

pub(super) async fn section(plan: &Plan<'_>, workload: Workload) -> Result<String> {
    let works = Work::of(workload);
    let start = plan.server.database().await;
    if works.contains(&Work::Archive) {
        drop(target::open(&start).await?);
        ended::fill_postgres(&start, ended::count(plan.size)).await?;
        plan.server.settle(&start).await?;
    }
    let mut cells = Cell::all(works);
    for _ in 0..plan.rounds {
        for cell in &mut cells {
            let url = plan.server.copy_of(&start).await;
            cell.taken
                .push(watched(plan, &url, works, cell.work).await?);
            plan.server.drop_database(&url).await;
        }
    }
    plan.server.drop_database(&start).await;
    Ok(text(plan.size, &cells))
}

async fn watched(plan: &Plan<'_>, url: &str, works: &'static [Work], work: Work) -> Result<Beside> {
    let waits = LockWaits::watch(plan.server);
    let (size, folder, url) = (plan.size, plan.scratch.folder()?, url.to_owned());
    let storm = move || {
        let place = Place {
            size,
            url: &url,
            scratch: folder.path(),
            works,
        };
        strike(place, work)
    };
    let beside = tokio::task::spawn_blocking(storm).await?;
    let lock_wait_ms = waits.longest_ms().await?;
    let mut beside = beside?;
    beside.lock_wait_ms = lock_wait_ms;
    Ok(beside)
}
