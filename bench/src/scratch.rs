//! Where the databases of a run lie: on a real disk, or the run refuses to begin.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

#[derive(Debug)]
pub(crate) struct Scratch {
    folder: TempDir,
    pub(crate) filesystem: String,
}

impl Scratch {
    /// Under `$TMPDIR` if it is set, else under the workspace's `target/`.
    pub(crate) fn create() -> Result<Self> {
        let root = match std::env::var_os("TMPDIR") {
            Some(root) => PathBuf::from(root),
            None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench-scratch"),
        };
        fs::create_dir_all(&root).with_context(|| format!("cannot create {}", root.display()))?;
        let root = root.canonicalize()?;
        let filesystem = filesystem_of(&root)?;
        if ["tmpfs", "ramfs"].contains(&filesystem.as_str()) {
            bail!(
                "{} is {filesystem}, where fsync costs nothing; set TMPDIR to a folder on a disk",
                root.display()
            );
        }
        Ok(Self {
            folder: TempDir::new_in(&root)?,
            filesystem,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A folder for one measurement, gone when dropped.
    pub(crate) fn folder(&self) -> Result<TempDir> {
        Ok(TempDir::new_in(self.path())?)
    }
}

/// The type of the mount with the longest path that leads to `path`.
pub(crate) fn filesystem_of(path: &Path) -> Result<String> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?))
    });
    mounts
        .filter(|(at, _)| path.starts_with(at))
        .max_by_key(|(at, _)| at.len())
        .map(|(_, kind)| kind.to_owned())
        .with_context(|| format!("no mount holds {}", path.display()))
}
