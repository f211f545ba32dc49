//! How our types lie in PostgreSQL's columns. All whole numbers are `bigint`.

use std::borrow::Cow;
use std::error::Error;

use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use tokio_postgres::{Column, Row};
use tollgate_core::Timestamp;
use tollgate_core::ports::{StoreError, StoreResult};
use tollgate_core::window::END_OF_TIME;

use crate::value::unknown_word;

/// A time, as microseconds since 1970; what lies after the end of time lies at it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Us(pub(crate) Timestamp);

impl Us {
    pub(crate) fn micros(self) -> i64 {
        self.0.min(END_OF_TIME).as_microsecond()
    }
}

impl ToSql for Us {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.micros().to_sql(ty, out)
    }
    accepts!(INT8);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Us {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(Timestamp::from_microsecond(i64::from_sql(ty, raw)?)?))
    }
    accepts!(INT8);
}

/// A count or a run: never negative, never above `u32` unless the row was written by hand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count(pub(crate) u32);

impl<'a> FromSql<'a> for Count {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(u32::try_from(i64::from_sql(ty, raw)?)?))
    }
    accepts!(INT8);
}

/// One of our words; a row that holds another was not written by this release.
pub(crate) fn word<T>(row: &Row, column: usize, parse: fn(&str) -> Option<T>) -> StoreResult<T> {
    let text: &str = row.get(column);
    parse(text).ok_or_else(|| {
        let name = row.columns().get(column).map_or("", Column::name);
        StoreError::Bug(unknown_word(name, text))
    })
}

/// Text from outside, such as a downstream's answer: PostgreSQL stores no NUL.
pub(crate) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        Cow::Owned(text.replace('\0', "\u{fffd}"))
    } else {
        Cow::Borrowed(text)
    }
}
