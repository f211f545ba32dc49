//! What can go wrong with an archive, by what the caller does about it. Each message is one whole sentence.

use std::io;
use std::path::Path;

use tollgate_core::ports::StoreError;

#[derive(Debug)]
pub enum ArchiveError {
    /// Nothing is known of it.
    NotFound(String),
    /// Not at all, until a person has put something right.
    Conflict(String),
    /// Not now: somebody else is at work.
    Busy(String),
    /// A file, or what the database has of a day, is not what it should be. No file was changed.
    Mismatch(String),
    /// The disk does not take or give something. To be tried again.
    Disk(String),
    Store(StoreError),
}

pub type ArchiveResult<T> = Result<T, ArchiveError>;

impl std::fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFound(why)
            | Self::Conflict(why)
            | Self::Busy(why)
            | Self::Mismatch(why)
            | Self::Disk(why) => f.write_str(why),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ArchiveError {}

impl From<StoreError> for ArchiveError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl ArchiveError {
    pub(super) fn reading(path: &Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => {
                let path = path.display();
                Self::Mismatch(format!("{path} is missing; recover it from a backup"))
            }
            // What a decoder says of bytes that were cut off or changed.
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidInput => {
                let path = path.display();
                Self::Mismatch(format!(
                    "{path} is damaged: {error}; recover it from a backup"
                ))
            }
            _ => Self::Disk(format!("{} cannot be read: {error}", path.display())),
        }
    }

    pub(super) fn writing(path: &Path, error: &io::Error) -> Self {
        let remedy = match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => "free space in retention.export_dir",
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "let the service write to retention.export_dir"
            }
            io::ErrorKind::NotFound => "create or mount the folder of retention.export_dir",
            _ => "check the disk of retention.export_dir",
        };
        Self::Disk(format!(
            "{} cannot be written: {error}; {remedy} and run it again; nothing was dropped",
            path.display()
        ))
    }
}
