//! Reading what a client sent: JSON into types, with the wrong field named; and who it is.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use tollgate_core::id::{ItemId, check_item_id};
use tollgate_core::ports::Author;

use super::error::{ApiError, bytes_of, json_body};
use crate::auth::Caller;

pub(super) type Body = Result<Bytes, BytesRejection>;

/// A JSON body as a type; what does not fit is told as the field `body`.
pub(super) fn parse<T: DeserializeOwned>(headers: &HeaderMap, body: Body) -> Result<T, ApiError> {
    serde_json::from_value(json_body(headers, body)?).map_err(|e| wrong("body", e.to_string()))
}

/// A body of plain text.
pub(super) fn text(headers: &HeaderMap, body: Body) -> Result<String, ApiError> {
    let bytes = bytes_of(headers, body, "text/plain")?;
    String::from_utf8(bytes.into()).map_err(|_| wrong("body", "must be text in UTF-8"))
}

/// One wrong field.
pub(super) fn wrong(field: &str, what: impl Into<String>) -> ApiError {
    ApiError::invalid(BTreeMap::from([(field.to_owned(), what.into())]))
}

/// Where a page begins: after an id.
pub(super) fn after_id(after: String) -> Result<ItemId, ApiError> {
    check_item_id(&after).map_err(|why| wrong("after", why))?;
    Ok(ItemId::new(after))
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
