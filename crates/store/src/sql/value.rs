//! What lies in a column, for both databases: all whole numbers are of 64 bits, all times are
//! microseconds since 1970.

use tollgate_core::Timestamp;
use tollgate_core::id::{
    BatchId, BulkId, CalendarName, ErasureId, FlowId, ItemId, ItemType, JobId, LaneName,
};
use tollgate_core::window::END_OF_TIME;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Bool(bool),
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    /// For messages: never what it holds.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Int(_) => "a number",
            Self::Bool(_) => "a flag",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Int(number.into())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Bool(flag)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// What lies after the end of time lies at it.
impl From<Timestamp> for Value {
    fn from(time: Timestamp) -> Self {
        Self::Int(time.min(END_OF_TIME).as_microsecond())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// None if it is not what the column was taken for.
pub(crate) trait FromValue: Sized {
    fn from_value(value: &Value) -> Option<Self>;
}

impl FromValue for i64 {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Int(number) => Some(*number),
            Value::Bool(_) | Value::Null | Value::Text(_) | Value::Bytes(_) => None,
        }
    }
}

/// A count: never negative, unless the row was written by hand.
impl FromValue for u64 {
    fn from_value(value: &Value) -> Option<Self> {
        i64::from_value(value)?.try_into().ok()
    }
}

impl FromValue for u32 {
    fn from_value(value: &Value) -> Option<Self> {
        i64::from_value(value)?.try_into().ok()
    }
}

/// SQLite has no flags: there it is 0 or 1.
impl FromValue for bool {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(flag) => Some(*flag),
            Value::Int(number) => Some(*number != 0),
            Value::Null | Value::Text(_) | Value::Bytes(_) => None,
        }
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            Value::Null | Value::Int(_) | Value::Bool(_) | Value::Bytes(_) => None,
        }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => Some(bytes.clone()),
            Value::Null | Value::Int(_) | Value::Bool(_) | Value::Text(_) => None,
        }
    }
}

impl FromValue for Timestamp {
    fn from_value(value: &Value) -> Option<Self> {
        Self::from_microsecond(i64::from_value(value)?).ok()
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

macro_rules! names {
    ($($name:ident),*) => {$(
        impl From<&$name> for Value {
            fn from(name: &$name) -> Self {
                Self::Text(name.as_str().to_owned())
            }
        }
        impl FromValue for $name {
            fn from_value(value: &Value) -> Option<Self> {
                String::from_value(value).map(Self::new)
            }
        }
    )*};
}
names!(
    BatchId,
    BulkId,
    CalendarName,
    ErasureId,
    FlowId,
    ItemId,
    ItemType,
    JobId,
    LaneName
);
