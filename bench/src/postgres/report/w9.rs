//! W9 on PostgreSQL, beside a job of two other queues: inserted, then completed.

use anyhow::Result;

use super::super::rounds::output_of;
use super::super::task::{Peer, Phase, Task, Work};
use super::Plan;
use crate::cost::postgres::{Meter, measure};
use crate::cost::report::{Cell, section as table};
use crate::cost::{COUNT, Cost, EVENTS, EVENTS_NOTE};
use crate::payments::{self, Ids};

pub(super) async fn section(plan: &Plan<'_>) -> Result<String> {
    plan.server.full_page_writes(false).await;
    let mut cells = [
        Cell::new("Tollgate, embedded engine"),
        Cell::new("the same with events on"),
        Cell::new("peer: graphile-worker 0.17 (Node), a job"),
        Cell::new("peer: pg-boss 10 (Node), a job"),
    ];
    for _ in 0..plan.rounds {
        let folder = plan.scratch.folder()?;
        cells[0].add(measure(plan.server, folder.path(), "").await?)?;
        cells[1].add(measure(plan.server, folder.path(), EVENTS).await?)?;
        cells[2].add(of_peer(plan, Peer::GraphileWorker).await?)?;
        cells[3].add(of_peer(plan, Peer::PgBoss).await?)?;
    }
    plan.server.full_page_writes(true).await;
    let note = " Full-page writes are off. A peer's job has the payment's JSON as its payload and does nothing; \
                no bank is called.";
    Ok(table(&cells, &format!("{EVENTS_NOTE}{note}")))
}

async fn of_peer(plan: &Plan<'_>, peer: Peer) -> Result<Cost> {
    let (count, input) = (COUNT, plan.scratch.path().join("jobs.ndjson"));
    payments::write(&input, count, Ids::Ascending)?;
    let url = plan.server.database().await;
    let task = |work| Task::Peer {
        peer,
        work,
        input: input.clone(),
        count,
    };
    output_of(Phase::Prepare, &task(Work::Insert), &url)?;
    let meter = Meter::begin(plan.server, &url).await?;
    for work in [Work::Insert, Work::Drain] {
        output_of(Phase::Measure, &task(work), &url)?;
    }
    let cost = meter.end().await?;
    plan.server.drop_database(&url).await;
    Ok(cost)
}
