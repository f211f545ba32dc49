//! A row, its columns by name.

use std::sync::Arc;

use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{StoreError, StoreResult};

use super::{FromValue, Value};
use crate::value::unknown_word;

#[derive(Debug)]
pub(crate) struct Row {
    columns: Arc<[String]>,
    values: Vec<Value>,
}

impl Row {
    pub(crate) fn new(columns: &Arc<[String]>, values: Vec<Value>) -> Self {
        Self {
            columns: Arc::clone(columns),
            values,
        }
    }

    pub(crate) fn get<T: FromValue>(&self, column: &str) -> StoreResult<T> {
        let found = self.columns.iter().position(|name| name == column);
        let value = found.and_then(|n| self.values.get(n));
        let value = value.ok_or_else(|| StoreError::Bug(format!("there is no column {column}")))?;
        T::from_value(value).ok_or_else(|| {
            let kind = std::any::type_name::<T>();
            StoreError::Bug(format!(
                "the column {column} holds no {kind}: {}",
                value.kind()
            ))
        })
    }

    /// One of our words; a row that holds another was not written by this release.
    pub(crate) fn word<T>(&self, column: &str, parse: fn(&str) -> Option<T>) -> StoreResult<T> {
        let text: String = self.get(column)?;
        parse(&text).ok_or_else(|| StoreError::Bug(unknown_word(column, &text)))
    }

    /// From the columns `amount_minor` and `currency`.
    pub(crate) fn money(&self) -> StoreResult<Money> {
        Ok(Money {
            minor: self.get("amount_minor")?,
            currency: self.word("currency", Currency::from_code)?,
        })
    }

    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self, column: &str) -> StoreResult<T> {
        let text: String = self.get(column)?;
        serde_json::from_str(&text)
            .map_err(|e| StoreError::Bug(format!("the column {column}: {e}")))
    }
}
