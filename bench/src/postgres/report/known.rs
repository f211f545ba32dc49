//! Known ids on PostgreSQL.

use anyhow::Result;

use super::super::rounds::{measure, say};
use super::super::target;
use super::super::task::Task;
use super::Plan;
use crate::known::{Found, Plan as Wanted, fill_postgres, section as text, weigh_postgres};
use crate::payments::{self, Ids};
use crate::rounds::Samples;

const BYTES_GOAL: f64 = 80.0;

pub(super) async fn section(plan: &Plan<'_>) -> Result<String> {
    let wanted = Wanted::of(plan.size);
    let weighed = new(plan, 0).await?;
    let bytes_each = weigh_postgres(&weighed, wanted.weighed).await?;
    plan.server.drop_database(&weighed).await;
    let input = plan.scratch.path().join("known.ndjson");
    payments::write(&input, wanted.count, Ids::Ascending)?;
    let task = Task::Intake {
        input,
        count: wanted.count,
    };
    let starts = [new(plan, 0).await?, new(plan, wanted.known).await?];
    let mut taken = [Samples::new(), Samples::new()];
    for round in 1..=plan.rounds {
        for (start, samples) in starts.iter().zip(&mut taken) {
            let url = plan.server.copy_of(start).await;
            let sample = measure(&task, &url, plan.server).await?;
            plan.server.drop_database(&url).await;
            say(round, &task, &sample)?;
            samples.push(sample);
        }
    }
    for start in &starts {
        plan.server.drop_database(start).await;
    }
    let [without, with] = taken;
    let found = Found {
        bytes_each,
        bytes_goal: BYTES_GOAL,
        without,
        with,
    };
    Ok(text(wanted, &found))
}

/// A database with the lane of W1 and so many known ids, as it is before each run.
async fn new(plan: &Plan<'_>, known: u32) -> Result<String> {
    let url = plan.server.database().await;
    drop(target::planned_lane(&url).await?);
    if known > 0 {
        fill_postgres(&url, known).await?;
    }
    plan.server.settle(&url).await?;
    Ok(url)
}
