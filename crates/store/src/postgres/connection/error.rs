//! PostgreSQL's errors, by what the caller can do about them.

use std::error::Error as _;

use deadpool_postgres::{PoolError, TimeoutType};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::WrongType;
use tollgate_core::ports::StoreError;

/// Unique numbers of an item's attempts: another sender was faster, and asking again shows its attempt.
const ATTEMPT_NUMBER: &str = "attempt_item";

/// Our own code: something in the database that a person has made is in the way, and the message says what to do.
const MADE_BY_HAND: &str = "TG001";

/// What a lost connection leaves open: a commit whose answer never came may have happened. That
/// is `Unavailable` too; every operation is safe to repeat.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err wants"
)]
pub(crate) fn store_error(error: Error) -> StoreError {
    let Some(db) = error.as_db_error() else {
        return match error.source() {
            Some(source) if source.is::<WrongType>() => StoreError::Bug(error.to_string()),
            Some(source) => StoreError::Unavailable(format!("{error}: {source}")),
            None => StoreError::Unavailable(error.to_string()),
        };
    };
    if db.code().code() == MADE_BY_HAND {
        return StoreError::Invalid(db.message().to_owned());
    }
    let said = format!("{} ({})", db.message(), db.code().code());
    if is_passing(db.code()) || db.constraint() == Some(ATTEMPT_NUMBER) {
        StoreError::Unavailable(said)
    } else {
        StoreError::Bug(said)
    }
}

/// Trouble of the server or between transactions: the same request may succeed later.
fn is_passing(code: &SqlState) -> bool {
    const OURS_TO_REPEAT: [SqlState; 6] = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::INVALID_CATALOG_NAME,
    ];
    // Connection exceptions, invalid authorization, resources, operator intervention, system.
    const CLASSES: [&str; 5] = ["08", "28", "53", "57", "58"];
    OURS_TO_REPEAT.contains(code) || CLASSES.iter().any(|class| code.code().starts_with(class))
}

pub(super) fn pool_error(error: PoolError) -> StoreError {
    StoreError::Unavailable(match error {
        PoolError::Timeout(TimeoutType::Wait) => {
            "all connections to PostgreSQL are busy; try again, or raise the number of connections"
                .into()
        }
        PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => {
            "PostgreSQL did not answer in time".into()
        }
        PoolError::Backend(error) => return store_error_of_connecting(error),
        PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
            error.to_string()
        }
    })
}

/// Nothing that goes wrong while connecting is a bug: the server was there when we opened.
fn store_error_of_connecting(error: Error) -> StoreError {
    match store_error(error) {
        StoreError::Bug(why) => StoreError::Unavailable(why),
        other => other,
    }
}
