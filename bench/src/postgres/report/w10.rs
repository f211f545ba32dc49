//! W10 on PostgreSQL: a job beside a storm, and how long anyone waited for a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;

use super::Plan;
use crate::postgres::target;
use crate::storm::beside::{Beside, section as text, strike};

const LOOK_EVERY: Duration = Duration::from_millis(5);

pub(super) async fn section(plan: &Plan<'_>) -> Result<String> {
    let (mut without, mut with) = (vec![], vec![]);
    for _ in 0..plan.rounds {
        for (with_job, taken) in [(false, &mut without), (true, &mut with)] {
            let url = plan.server.database().await;
            taken.push(watched(plan, &url, with_job).await?);
            plan.server.drop_database(&url).await;
        }
    }
    Ok(text(plan.size, &without, &with))
}

async fn watched(plan: &Plan<'_>, url: &str, with_job: bool) -> Result<Beside> {
    let is_over = Arc::new(AtomicBool::default());
    let looks = tokio::spawn(longest_wait(url.to_owned(), Arc::clone(&is_over)));
    let (size, folder, at) = (plan.size, plan.scratch.folder()?, url.to_owned());
    let storm = move || strike(size, &at, folder.path(), with_job);
    let beside = tokio::task::spawn_blocking(storm).await?;
    is_over.store(true, Ordering::SeqCst);
    let lock_wait_ms = looks.await?;
    let mut beside = beside?;
    beside.lock_wait_ms = lock_wait_ms;
    Ok(beside)
}

/// In milliseconds, as far as anyone who looks can see.
async fn longest_wait(url: String, is_over: Arc<AtomicBool>) -> f64 {
    const LONGEST: &str = "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart)) * 1000000, 0)::bigint
         FROM pg_locks WHERE NOT granted";
    let mut longest = 0;
    let Ok(client) = target::connect(&url).await else {
        return f64::NAN;
    };
    while !is_over.load(Ordering::SeqCst) {
        if let Ok(row) = client.query_one(LONGEST, &[]).await {
            longest = longest.max(row.get::<_, i64>(0));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    f64::from(u32::try_from(longest).unwrap_or(u32::MAX)) / 1000.0
}
