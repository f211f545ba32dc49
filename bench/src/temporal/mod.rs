//! W7: what payments that wait cost a Temporal server, as sleeping workflows and in Tollgate's queue;
//! what they cost it until they are paid; and how much of the server's rate of starts is left when Tollgate
//! dispatches.
//!
//! A private Temporal server for each of the two, and one private PostgreSQL.

mod executed;
mod held;
mod history;
mod holds;
mod rates;

use anyhow::Result;
use tollgate_conformance::postgres::Cluster;
use tollgate_conformance::temporal::TemporalServer;

use crate::arguments::{Arguments, Workload};
use crate::postgres::server::SETTINGS;
use crate::report::machine;
use crate::scratch::Scratch;

/// Both servers of a run, and where its files lie.
struct Plan<'a> {
    arguments: &'a Arguments,
    scratch: &'a Scratch,
    temporal: &'a TemporalServer,
    postgres: &'a Cluster,
}

impl Plan<'_> {
    /// A new namespace of the Temporal server.
    fn namespace(&self, name: &str) -> Result<()> {
        let create = ["operator", "namespace", "create", "--namespace", name];
        let created = self.temporal.ask(&create);
        created
            .map(drop)
            .ok_or_else(|| anyhow::anyhow!("no namespace {name}"))
    }
}

/// Measures what was asked for and returns the whole text.
pub(crate) async fn run(arguments: &Arguments, workloads: &[Workload]) -> Result<String> {
    let scratch = Scratch::create()?;
    let postgres = tokio::task::spawn_blocking(|| Cluster::start_with(SETTINGS)).await?;
    let mut sections = vec![header(arguments, &scratch)?];
    for workload in workloads {
        let temporal = tokio::task::spawn_blocking(TemporalServer::start).await?;
        let plan = Plan {
            arguments,
            scratch: &scratch,
            temporal: &temporal,
            postgres: &postgres,
        };
        sections.push(match workload {
            Workload::W7Executed => executed::section(&plan).await?,
            Workload::Starts => rates::section(&plan).await?,
            _ => held::section(&plan).await?,
        });
    }
    sections.push(machine::load()?);
    Ok(sections.join("\n"))
}

fn header(arguments: &Arguments, scratch: &Scratch) -> Result<String> {
    let profile = if cfg!(debug_assertions) {
        " **A debug build**: Tollgate's own share of the time is larger than in a release."
    } else {
        ""
    };
    Ok(format!(
        "# Temporal\n\n\
         Command: `tollgate-bench {typed}`. Temporal's development server with its database in a SQLite file \
         (WAL, `synchronous=NORMAL`: a crash of the machine may lose the last commits); PostgreSQL with \
         `fsync` and `synchronous_commit` on. Clients and both servers share this machine.{profile}\n\n\
         Machine: {machine}, scratch files on {filesystem}.\n",
        typed = arguments.typed,
        machine = machine::words()?,
        filesystem = scratch.filesystem,
    ))
}
