//! A wall clock that is wrong for one process: libfaketime, from the Debian package `faketime`.
//! The monotonic clock stays as it is, since no clock service ever steps that one.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Can be set again while the process runs.
#[derive(Debug)]
pub struct WrongClock {
    folder: TempDir,
}

impl WrongClock {
    /// As `faketime` reads it: `+5s`, `-1h`.
    pub fn off_by(offset: &str) -> Self {
        let clock = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        clock.jump_to(offset);
        clock
    }

    /// In one piece: nobody reads half of it.
    pub fn jump_to(&self, offset: &str) {
        let draft = self.folder.path().join("draft");
        std::fs::write(&draft, offset).unwrap();
        std::fs::rename(draft, self.file()).unwrap();
    }

    /// What the process is started with.
    pub fn env(&self) -> Vec<(&'static str, String)> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        vec![
            ("LD_PRELOAD", text(&library())),
            ("FAKETIME_TIMESTAMP_FILE", text(&self.file())),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("offset")
    }
}

/// Debian keeps it in a folder named after the machine's architecture.
fn library() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten();
    let found = folders
        .flatten()
        .map(|folder| folder.path().join("faketime/libfaketime.so.1"))
        .find(|path| path.exists());
    found.expect("libfaketime is not installed in /usr/lib; run ./dev setup")
}
