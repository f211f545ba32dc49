//! How our types lie in SQLite's columns.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Type, ValueRef};
use rusqlite::{Error, Row};
use tollgate_core::Timestamp;
use tollgate_core::window::END_OF_TIME;

use crate::value::unknown_word;

/// A time, as microseconds since 1970; what lies after the end of time lies at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Us(pub(crate) Timestamp);

impl ToSql for Us {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.min(END_OF_TIME).as_microsecond().into())
    }
}

impl FromSql for Us {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Timestamp::from_microsecond(value.as_i64()?)
            .map(Self)
            .map_err(|e| FromSqlError::Other(e.into()))
    }
}

/// One of our words; a row that holds another was not written by this release.
pub(crate) fn word<T>(
    row: &Row<'_>,
    column: usize,
    parse: fn(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    if let Some(word) = parse(&text) {
        return Ok(word);
    }
    let why = unknown_word(row.as_ref().column_name(column)?, &text);
    Err(Error::FromSqlConversionFailure(
        column,
        Type::Text,
        why.into(),
    ))
}
