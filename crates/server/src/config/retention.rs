//! How long ended items stay where, and where the files of the archive are.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use serde::Deserialize;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    pub archive_days: u32,
    export_dir: PathBuf,
    pub restored_days: u32,
}

impl Retention {
    /// None if days are not exported.
    pub(crate) fn export_dir(&self) -> Option<&Path> {
        let is_set = !self.export_dir.as_os_str().is_empty();
        is_set.then_some(self.export_dir.as_path())
    }

    /// A folder that is not there is not made: it may be a disk that is not mounted.
    pub(super) fn validate(&self) -> anyhow::Result<()> {
        ensure!(
            self.archive_days >= 1,
            "retention.archive_days must be at least 1"
        );
        if let Some(path) = self.export_dir() {
            ensure!(
                path.is_dir(),
                "retention.export_dir: {} does not exist or is not a folder; create or mount it",
                path.display()
            );
        }
        Ok(())
    }
}
