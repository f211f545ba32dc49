//! An answer of the API: the typed value, and the text that it was read from.

use std::ops::Deref;

use serde::de::DeserializeOwned;

use crate::Error;

/// A successful answer. It dereferences to the value.
///
/// The text is kept because a newer server may answer more than this version of the contract knows.
#[derive(Debug, Clone)]
pub struct Answer<T> {
    http_status: u16,
    raw: String,
    value: T,
}

impl<T> Answer<T> {
    /// HTTP status, such as 200 or 202. It shows whether a resource is new.
    pub fn http_status(&self) -> u16 {
        self.http_status
    }

    /// The body as the server sent it.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The value alone.
    pub fn into_value(self) -> T {
        self.value
    }
}

impl<T: DeserializeOwned> Answer<T> {
    pub(crate) fn read(http_status: u16, raw: String) -> Result<Self, Error> {
        let value = serde_json::from_str(&raw).map_err(Error::Answer)?;
        Ok(Self {
            http_status,
            raw,
            value,
        })
    }
}

impl<T> Deref for Answer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
