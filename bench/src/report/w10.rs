//! W10 on SQLite: other work beside a storm.

use std::fs;

use anyhow::Result;

use super::Plan;
use crate::arguments::Workload;
use crate::ended;
use crate::storm::beside::report::{Cell, section as text};
use crate::storm::beside::{Place, Work, strike};

pub(super) fn section(plan: &Plan<'_>, workload: Workload) -> Result<String> {
    let works = Work::of(workload);
    let start = plan.scratch.path().join("ended.db");
    if works.contains(&Work::Archive) {
        ended::fill_sqlite(&start, ended::count(plan.size))?;
    }
    let mut cells = Cell::all(works);
    for _ in 0..plan.rounds {
        for cell in &mut cells {
            let folder = plan.scratch.folder()?;
            let file = folder.path().join("beside.db");
            if start.exists() {
                fs::copy(&start, &file)?;
            }
            let place = Place {
                size: plan.size,
                url: &format!("sqlite:{}", file.display()),
                scratch: folder.path(),
                works,
            };
            cell.taken.push(strike(place, cell.work)?);
        }
    }
    Ok(text(plan.size, &cells))
}
