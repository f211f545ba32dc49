//! What is logged on this thread, read back.

use std::path::PathBuf;
use std::sync::Arc;

use tempfile::TempDir;
use tracing::subscriber::DefaultGuard;

pub(crate) struct Log {
    folder: TempDir,
    _logging: DefaultGuard,
}

impl Log {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = Arc::new(std::fs::File::create(path(&folder)).unwrap());
        let log = tracing_subscriber::fmt().with_ansi(false).with_writer(file);
        Self {
            folder,
            _logging: tracing::subscriber::set_default(log.finish()),
        }
    }

    pub(crate) fn lines_with(&self, words: &str) -> Vec<String> {
        let log = std::fs::read_to_string(path(&self.folder)).unwrap();
        let lines = log.lines().filter(|line| line.contains(words));
        lines.map(str::to_owned).collect()
    }
}

fn path(folder: &TempDir) -> PathBuf {
    folder.path().join("log")
}
