//! W10 on SQLite: a job beside a storm.

use anyhow::Result;

use super::Plan;
use crate::storm::beside::{section as text, strike};

pub(super) fn section(plan: &Plan<'_>) -> Result<String> {
    let (mut without, mut with) = (vec![], vec![]);
    for _ in 0..plan.rounds {
        for (with_job, taken) in [(false, &mut without), (true, &mut with)] {
            let folder = plan.scratch.folder()?;
            let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
            taken.push(strike(plan.size, &url, folder.path(), with_job)?);
        }
    }
    Ok(text(plan.size, &without, &with))
}
