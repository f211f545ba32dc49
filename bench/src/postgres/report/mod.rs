//! The report on PostgreSQL: which tasks belong to a workload, and how their samples read.

mod feeds;
mod header;
mod known;
mod w1;
mod w10;
mod w2;
mod w3;
mod w4;
mod w6;
mod w6_archive;
mod w9;

use anyhow::Result;

use super::peers;
use super::server::Server;
use crate::arguments::{Arguments, Size, Workload};
use crate::report::machine;
use crate::scratch::Scratch;

/// What a workload's section needs to be measured.
struct Plan<'a> {
    size: Size,
    rounds: u32,
    /// Where files of payments lie.
    scratch: &'a Scratch,
    server: &'a Server,
}

/// Measures everything that was asked for and returns the whole text. It takes a good part of an
/// hour, so what is finished is handed to `keep` on the way.
pub(crate) async fn run(
    arguments: &Arguments,
    workloads: &[Workload],
    keep: impl Fn(&str) -> Result<()>,
) -> Result<String> {
    let any = |of: &[Workload]| workloads.iter().any(|workload| of.contains(workload));
    if any(&[Workload::W1, Workload::W2, Workload::W9]) {
        peers::install()?;
    }
    if any(&[Workload::W1, Workload::W2]) {
        peers::build()?;
    }
    let (scratch, server) = (Scratch::create()?, Server::start().await?);
    let plan = Plan {
        size: arguments.size,
        rounds: arguments.rounds,
        scratch: &scratch,
        server: &server,
    };
    let mut sections = vec![header::header(arguments, &server)?];
    for workload in workloads {
        sections.push(match workload {
            Workload::W1 => w1::section(&plan).await?,
            Workload::W2 => w2::section(&plan).await?,
            Workload::W3 => w3::section(&plan).await?,
            Workload::W4 => w4::section(&plan).await?,
            Workload::W6 => w6::section(&plan).await?,
            Workload::W9 => w9::section(&plan).await?,
            Workload::W10 | Workload::W10Job | Workload::W10Archive => {
                w10::section(&plan, *workload).await?
            }
            Workload::Known => known::section(&plan).await?,
            Workload::W6Archive => w6_archive::section(&plan).await?,
            Workload::Feeds => feeds::section(&plan).await?,
            Workload::W5
            | Workload::W7
            | Workload::W7Executed
            | Workload::W8
            | Workload::Starts
            | Workload::Consoles => {
                unreachable!("not among PostgreSQL's workloads")
            }
        });
        keep(&sections.join("\n"))?;
    }
    sections.push(machine::load()?);
    Ok(sections.join("\n"))
}
