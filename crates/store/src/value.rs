//! What both databases have in common about the values in their columns.

use std::time::Duration;

/// A stretch of time, in microseconds.
pub(crate) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX / 4)
}

/// How long from `now` until `then`; zero when it has passed.
pub(crate) fn until(now: i64, then: i64) -> Duration {
    Duration::from_micros(u64::try_from(then.saturating_sub(now)).unwrap_or(0))
}

/// What is said of a word that none of ours is.
pub(crate) fn unknown_word(column: &str, word: &str) -> String {
    format!("the column {column} holds {word:?}, which this release does not know")
}
