//! SQLite's errors, by what the caller can do about them.

use rusqlite::ErrorCode;
use tollgate_core::ports::StoreError;

/// Why a use case failed, be it SQLite's word or ours: `?` takes both.
#[derive(Debug)]
pub(crate) enum Failed {
    Sqlite(rusqlite::Error),
    Ours(StoreError),
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Ours(error)
    }
}

/// Where the hot path performs a use case that refuses nothing: an error of ours is a bug there.
impl From<Failed> for rusqlite::Error {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Sqlite(error) => error,
            Failed::Ours(error) => Self::ToSqlConversionFailure(Box::new(error)),
        }
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err wants"
)]
pub(crate) fn store_error(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Unavailable(
            "the disk is full; nothing was written. Tollgate continues when you free some space"
                .into(),
        ),
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::SystemIoFailure
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory,
        ) => StoreError::Unavailable(error.to_string()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Unavailable(error.to_string())
        }
        _ => StoreError::Bug(error.to_string()),
    }
}
