//! W9 on SQLite.

use anyhow::Result;

use super::Plan;
use crate::cost::report::{Cell, section as table};
use crate::cost::sqlite;

pub(super) fn section(plan: &Plan<'_>) -> Result<String> {
    let mut cell = Cell::new("Tollgate, embedded engine");
    for _ in 0..plan.rounds {
        let (rows, bytes) = (plan.scratch.folder()?, plan.scratch.folder()?);
        cell.add(sqlite::measure(rows.path(), bytes.path())?)?;
    }
    Ok(table(&[cell], ""))
}
