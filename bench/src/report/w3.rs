//! W3 on SQLite and the embedded engine: one node.

use anyhow::Result;

use super::Plan;
use crate::process::Process;
use crate::storm::Storm;
use crate::storm::report::{Cell, section as table};

pub(super) fn section(plan: &Plan<'_>) -> Result<String> {
    let mut cells = Cell::all(&["1 node, embedded engine"]);
    for _ in 0..plan.rounds {
        for cell in &mut cells {
            let folder = plan.scratch.folder()?;
            let url = format!("sqlite:{}", folder.path().join("storm.db").display());
            let storm = Storm::of(plan.size, cell.limit);
            let seen = storm.strike(folder.path(), |bank| {
                Ok(vec![Process::serve(&url, bank, "")?])
            })?;
            cell.add(seen)?;
        }
    }
    Ok(table(plan.size, &cells, ""))
}
