//! The version of a database's schema, which no release may be older than.

use refinery::Runner;

/// The newest migration that this release knows.
pub(crate) fn newest(runner: &Runner) -> i64 {
    let versions = runner
        .get_migrations()
        .iter()
        .map(|m| i64::from(m.version()));
    versions.max().unwrap_or(0)
}
