//! W9 as a table.

use std::io::{Write, stderr};

use anyhow::Result;

use super::{COUNT, Cost};
use crate::report::table::{Figures, markdown, one_digit, whole};

/// One line of the table, round by round.
#[derive(Debug)]
pub(crate) struct Cell {
    name: String,
    costs: Vec<Cost>,
}

impl Cell {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            costs: vec![],
        }
    }

    /// One round more.
    pub(crate) fn add(&mut self, cost: Cost) -> Result<()> {
        writeln!(stderr(), "{}: {cost:?}", self.name)?;
        self.costs.push(cost);
        Ok(())
    }

    fn row(&self) -> [String; 4] {
        let each = |of: fn(&Cost) -> f64| {
            let figures = self.costs.iter().map(|cost| of(cost) / f64::from(COUNT));
            Figures::new(figures.collect())
        };
        [
            self.name.clone(),
            each(|cost| cost.row_versions).show(one_digit),
            each(|cost| cost.wal_bytes).show(whole),
            each(|cost| cost.kept_bytes).show(whole),
        ]
    }
}

pub(crate) fn section(cells: &[Cell], note: &str) -> String {
    let rows: Vec<_> = cells.iter().map(Cell::row).collect();
    let head = ["cell", "row versions", "WAL bytes", "bytes kept"];
    format!(
        "## W9 cost\n\n\
         {count} payments, each from a line in a file to PROCESSING: `tollgate serve` with the embedded engine, \
         and `tollgate sandbox` as the bank, whose ledger must show every payment once. Per payment, counted: rows inserted, updated and \
         deleted, bytes of the write-ahead log, and what the database has grown by once it is vacuumed.{note}\n\n{table}",
        count = whole(f64::from(COUNT)),
        table = markdown(head, &rows),
    )
}
