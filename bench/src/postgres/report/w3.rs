//! W3 on PostgreSQL: one node with the embedded engine, and three on Temporal's development server.

use anyhow::Result;
use tollgate_conformance::temporal::TemporalServer;

use super::Plan;
use crate::process::Process;
use crate::storm::Storm;
use crate::storm::report::{Cell, section as table};

const EMBEDDED: &str = "1 node, embedded engine";
const TEMPORAL: &str = "3 nodes, Temporal's development server";
const NODES: usize = 3;

pub(super) async fn section(plan: &Plan<'_>) -> Result<String> {
    let mut cells = Cell::all(&[EMBEDDED, TEMPORAL]);
    for _ in 0..plan.rounds {
        for cell in &mut cells {
            let url = plan.server.database().await;
            let (storm, folder) = (Storm::of(plan.size, cell.limit), plan.scratch.folder()?);
            let seen = if cell.name == TEMPORAL {
                let temporal = TemporalServer::start();
                let engine = format!("engine.url = \"{}\"", temporal.url());
                storm.strike(folder.path(), |bank| {
                    let node = |_| Process::serve(&url, bank, &engine);
                    (0..NODES).map(node).collect()
                })?
            } else {
                storm.strike(folder.path(), |bank| {
                    Ok(vec![Process::serve(&url, bank, "")?])
                })?
            };
            plan.server.drop_database(&url).await;
            cell.add(seen)?;
        }
    }
    let note = " Three nodes keep their flows on Temporal's development server (SQLite, one process), which can run \
                some tens of flows a second on this machine: it is what binds there, not the gate.";
    Ok(table(plan.size, &cells, note))
}
