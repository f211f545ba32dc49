//! Feeds on SQLite and the embedded engine.

use anyhow::Result;

use super::Plan;
use crate::feeds::{Stores, report, round};

pub(super) fn section(plan: &Plan<'_>) -> Result<String> {
    let mut rounds = vec![];
    for _ in 0..plan.rounds {
        let folder = plan.scratch.folder()?;
        let at = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
        let stores = Stores {
            random: [at("random-file.db"), at("random-feed.db")],
            ascending: [at("file.db"), at("feed.db")],
        };
        rounds.push(round(plan.size, &stores, folder.path())?);
    }
    Ok(report::section(plan.size, &rounds))
}
