//! Reading what a client sent: JSON into types, with the wrong field named; and who it is.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use tollgate_core::ports::Author;

use super::error::{ApiError, json_body};
use crate::auth::Caller;

pub(super) type Body = Result<Bytes, BytesRejection>;

/// A JSON body as a type; what does not fit is told as the field `body`.
pub(super) fn parse<T: DeserializeOwned>(headers: &HeaderMap, body: Body) -> Result<T, ApiError> {
    serde_json::from_value(json_body(headers, body)?).map_err(|e| wrong("body", e.to_string()))
}

/// One wrong field.
pub(super) fn wrong(field: &str, what: impl Into<String>) -> ApiError {
    ApiError::invalid(BTreeMap::from([(field.to_owned(), what.into())]))
}

/// Who acts says why: the reason is what the next person reads.
pub(super) fn author(caller: &Caller, reason: String) -> Result<Author, ApiError> {
    if reason.trim().is_empty() {
        return Err(wrong("reason", "must say why"));
    }
    Ok(Author::new(caller.name(), reason))
}

/// For fields where `null` says something else than leaving them out.
#[expect(
    clippy::option_option,
    reason = "left out, null and given are three things"
)]
pub(super) fn given<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Some)
}
