//! `[jobs]`: acts on many items.

use anyhow::ensure;
use serde::Deserialize;

const MOST_PER_SECOND: u32 = 10_000;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    pub max_per_second: u32,
}

impl Jobs {
    pub(super) fn validate(&self) -> anyhow::Result<()> {
        ensure!(
            (1..=MOST_PER_SECOND).contains(&self.max_per_second),
            "jobs.max_per_second must be between 1 and {MOST_PER_SECOND}; to stop a job, use `tollgate jobs stop`"
        );
        Ok(())
    }
}
