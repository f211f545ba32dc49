//! W9 on SQLite.

use anyhow::Result;

use super::Plan;
use crate::cost::report::{Cell, section as table};
use crate::cost::{EVENTS, EVENTS_NOTE, sqlite};

pub(super) fn section(plan: &Plan<'_>) -> Result<String> {
    let mut cells = [
        Cell::new("Tollgate, embedded engine"),
        Cell::new("the same with events on"),
    ];
    for _ in 0..plan.rounds {
        for (cell, more) in cells.iter_mut().zip(["", EVENTS]) {
            let (rows, bytes) = (plan.scratch.folder()?, plan.scratch.folder()?);
            cell.add(sqlite::measure(rows.path(), bytes.path(), more)?)?;
        }
    }
    Ok(table(&cells, EVENTS_NOTE))
}
