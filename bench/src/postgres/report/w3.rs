//! W3 on PostgreSQL: one node with the embedded engine, and three on Temporal's development server.

use anyhow::Result;
use tollgate_conformance::temporal::TemporalServer;

use super::Plan;
use crate::postgres::peers;
use crate::process::Process;
use crate::report::table::{Figures, markdown, percent, verdict, whole};
use crate::storm::report::{Cell, section as table};
use crate::storm::{LIMITS, Seen, Storm};

const EMBEDDED: &str = "1 node, embedded engine";
const TEMPORAL: &str = "3 nodes, Temporal's development server";
const NODES: usize = 3;
/// At the highest limit only: what a description costs more than the shipped contract, which is one itself.
const STRIPE: &str = "1 node, embedded engine, bank described by stripe-transfers";
const AS_STRIPE: &str = "downstream.payments.description = \"stripe-transfers\"
downstream.payments.login = {kind = \"bearer\", token = \"sk_test_w3\"}";

pub(super) async fn section(plan: &Plan<'_>) -> Result<String> {
    let mut cells = Cell::all(&[EMBEDDED, TEMPORAL]);
    cells.push(Cell::new(STRIPE, LIMITS[2]));
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
            } else if cell.name == STRIPE {
                storm.at("stripe").strike(folder.path(), |bank| {
                    Ok(vec![Process::serve(&url, bank, AS_STRIPE)?])
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
    let peer = peer_section(plan)?;
    let note = " Three nodes keep their flows on Temporal's development server (SQLite, one process), with the default \
                number of items per flow.";
    Ok(table(plan.size, &cells, note) + &peer)
}

/// The same limit kept by Temporal itself.
fn peer_section(plan: &Plan<'_>) -> Result<String> {
    let limit = LIMITS[0];
    let payments = limit * plan.size.pick(10, 60);
    let seen: Vec<Seen> = (0..plan.rounds)
        .map(|_| peer(limit, payments))
        .collect::<Result<_>>()?;
    let of = |figure: fn(&Seen) -> f64| Figures::new(seen.iter().map(figure).collect());
    let kept = |seen: &Seen| seen.worst_second <= f64::from(limit) && seen.refused == 0.0;
    let row = [
        "Temporal's limit of a task queue".to_owned(),
        limit.to_string(),
        of(|seen| seen.arrivals).show(whole),
        of(|seen| seen.worst_second).show(whole),
        of(|seen| seen.refused).show(whole),
        verdict(seen.iter().all(kept)),
        of(|seen| seen.utilisation).show(percent),
    ];
    let head = [
        "peer",
        "limit/s",
        "arrivals",
        "worst sliding second",
        "refused by the bank",
        "0 violations",
        "utilisation",
    ];
    Ok(format!(
        "\nBeside it, the same bank and limit with `max_task_queue_activities_per_second` of a worker (Python SDK) on \
         Temporal's development server: {payments} payments, an activity each, a hundred to a workflow, so that \
         the limit binds and not the server. What the bank refuses is tried again by Temporal and arrives twice.\n\n{}",
        markdown(head, &[row]),
        payments = whole(f64::from(payments)),
    ))
}

fn peer(limit: u32, payments: u32) -> Result<Seen> {
    let (temporal, bank) = (TemporalServer::start(), Process::bank(limit)?);
    let mut command = peers::temporal_limit()?;
    command.args([temporal.address(), bank.url()]);
    command.args([limit.to_string(), payments.to_string()]);
    peers::succeeds(&mut command)?;
    Seen::by(bank.address, None, limit)
}
