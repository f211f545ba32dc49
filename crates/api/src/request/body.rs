//! Reading what a client sent: JSON into types, with the wrong field named; and who it is.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::HeaderMap;
use serde::de::DeserializeOwned;
use tollgate_core::id::{ItemId, check_item_id};
use tollgate_core::ports::Author;
use utoipa::ToSchema;

use super::shape;
use crate::answer::error::{ApiError, bytes_of, json_body};
use crate::door::auth::Caller;

pub(crate) type Body = Result<Bytes, BytesRejection>;

/// A JSON body as a type. All that does not fit is told by field; the document says what fits.
pub(crate) fn parse<T: DeserializeOwned + ToSchema>(
    headers: &HeaderMap,
    body: Body,
) -> Result<T, ApiError> {
    let body = json_body(headers, body)?;
    let flaws = shape::flaws(&T::name(), &body);
    if !flaws.is_empty() {
        return Err(ApiError::invalid(flaws));
    }
    serde_json::from_value(body).map_err(|error| {
        tracing::warn!(%error, schema = &*T::name(), "the document lets through what cannot be read");
        wrong("body", "does not match its schema in /openapi.json")
    })
}

/// The file. Generated clients send this media type.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct BinaryFile(Vec<u8>);

/// Bytes whose type the client does not say.
pub(super) const OCTETS: &str = "application/octet-stream";

pub(crate) fn is_octets(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or("").trim();
    essence.eq_ignore_ascii_case(OCTETS)
}

/// A body of plain text.
pub(crate) fn text(headers: &HeaderMap, body: Body) -> Result<String, ApiError> {
    let bytes = bytes_of(headers, body, &["text/plain", OCTETS])?;
    let text = String::from_utf8(bytes.into());
    let text = text.map_err(|_| wrong("body", "must be text in UTF-8"))?;
    if text.contains('\0') {
        return Err(wrong("body", "must not contain the character NUL"));
    }
    Ok(text)
}

/// One wrong field.
pub(crate) fn wrong(field: &str, what: impl Into<String>) -> ApiError {
    ApiError::invalid(BTreeMap::from([(field.to_owned(), what.into())]))
}

/// Where a page begins: after an id.
pub(crate) fn after_id(after: String) -> Result<ItemId, ApiError> {
    check_item_id(&after).map_err(|why| wrong("after", why))?;
    Ok(ItemId::new(after))
}

/// The longest reason; the document says so, too.
const MAX_REASON_CHARS: usize = 500;
/// What is kept of an act that may do without a reason and says none.
const NO_REASON: &str = "no reason given";

/// Who acts says why: the reason is what the next person reads.
pub(crate) fn author(caller: &Caller, reason: String) -> Result<Author, ApiError> {
    check_reason(&reason).map_err(|why| wrong("reason", why))?;
    Ok(Author::new(caller.name(), reason))
}

/// Who acts, where the reason may be left out.
pub(crate) fn perhaps_because(caller: &Caller, reason: Option<String>) -> Result<Author, ApiError> {
    author(caller, reason.unwrap_or_else(|| NO_REASON.to_owned()))
}

fn check_reason(reason: &str) -> Result<(), String> {
    if reason.trim().is_empty() {
        return Err("must not be empty".to_owned());
    }
    if reason.chars().count() > MAX_REASON_CHARS {
        return Err(format!("must have at most {MAX_REASON_CHARS} characters"));
    }
    // A line break is part of a text, and an escape sequence would be part of somebody's terminal.
    let is_strange = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if reason.contains(is_strange) {
        return Err("must not contain control characters".to_owned());
    }
    Ok(())
}
