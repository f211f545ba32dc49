//! The report on SQLite: which tasks belong to a workload, and how their samples read as a table.

mod consoles;
mod feeds;
mod known;
pub(crate) mod machine;
pub(crate) mod table;
mod w1;
mod w10;
mod w3;
mod w4;
mod w5;
mod w8;
mod w9;

use anyhow::Result;

use crate::arguments::{Arguments, Size, Workload};
use crate::scratch::Scratch;

/// What a workload's section needs to be measured.
pub(crate) struct Plan<'a> {
    pub(crate) size: Size,
    pub(crate) rounds: u32,
    pub(crate) scratch: &'a Scratch,
}

/// Measures everything that was asked for and returns the whole text.
pub(crate) fn run(arguments: &Arguments, workloads: &[Workload]) -> Result<String> {
    let scratch = Scratch::create()?;
    let plan = Plan {
        size: arguments.size,
        rounds: arguments.rounds,
        scratch: &scratch,
    };
    let mut sections = vec![machine::header(arguments, &scratch.filesystem)?];
    for workload in workloads {
        sections.push(match workload {
            Workload::W1 => w1::section(&plan)?,
            Workload::W3 => w3::section(&plan)?,
            Workload::W4 => w4::section(&plan)?,
            Workload::W5 => w5::section(&plan)?,
            Workload::W8 => w8::section(&plan)?,
            Workload::W9 => w9::section(&plan)?,
            Workload::W10 | Workload::W10Job | Workload::W10Archive => {
                w10::section(&plan, *workload)?
            }
            Workload::Known => known::section(&plan)?,
            Workload::Feeds => feeds::section(&plan)?,
            Workload::Consoles => consoles::section(&plan)?,
            Workload::W2
            | Workload::W6
            | Workload::W6Archive
            | Workload::W7
            | Workload::W7Executed
            | Workload::Starts => {
                unreachable!("not among SQLite's workloads")
            }
        });
    }
    sections.push(machine::load()?);
    Ok(sections.join("\n"))
}
