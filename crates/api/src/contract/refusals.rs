//! Which errors an operation may answer with, for the document: sets that many operations share.

use std::collections::BTreeMap;

use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::{Ref, RefOr, Response, ResponseBuilder, Type, schema::ObjectBuilder};
use utoipa::{IntoResponses, ToSchema};

/// Of an operation that answers everybody who is let in.
pub(crate) struct Door;
/// Of an operation that reads.
pub(crate) struct Reads;
/// Of an operation that reads something by its name.
pub(crate) struct Finds;
/// Of an operation that takes a body and needs nothing to be there.
pub(crate) struct Takes;
/// Of an operation that changes something by its name.
pub(crate) struct Changes;
/// Of an operation that takes a payment in.
pub(crate) struct Admits;

/// Of an operation that begins something new, or takes a file in.
pub(crate) struct Starts;

type Refusals = BTreeMap<String, RefOr<Response>>;

impl IntoResponses for Door {
    fn responses() -> Refusals {
        refusals(&[])
    }
}
impl IntoResponses for Reads {
    fn responses() -> Refusals {
        refusals(&[500])
    }
}
impl IntoResponses for Finds {
    fn responses() -> Refusals {
        refusals(&[404, 410, 500])
    }
}
impl IntoResponses for Takes {
    fn responses() -> Refusals {
        refusals(&[404, 413, 500])
    }
}
impl IntoResponses for Changes {
    fn responses() -> Refusals {
        refusals(&[404, 409, 413, 500])
    }
}
impl IntoResponses for Admits {
    fn responses() -> Refusals {
        refusals(&[409, 413, 422, 500])
    }
}

impl IntoResponses for Starts {
    fn responses() -> Refusals {
        refusals(&[409, 413, 500])
    }
}

/// Before any handler: what no request may contain, who asks, how slowly, and whether there is room.
const ALWAYS: [u16; 7] = [400, 401, 403, 408, 414, 415, 503];

fn refusals(statuses: &[u16]) -> Refusals {
    let one = |status: &u16| (status.to_string(), refusal(*status).into());
    ALWAYS.iter().chain(statuses).map(one).collect()
}

fn refusal(status: u16) -> Response {
    let schema = Ref::from_schema_name(tollgate_contract::Error::name());
    let content = ContentBuilder::new().schema(Some(schema)).build();
    let response = ResponseBuilder::new()
        .description(meaning(status))
        .content("application/json", content);
    if status != 503 {
        return response.build();
    }
    let seconds = ObjectBuilder::new().schema_type(Type::Integer).build();
    let retry_after = HeaderBuilder::new()
        .description(Some("Seconds to wait before the next attempt."))
        .schema(Some(seconds))
        .build();
    response.header("Retry-After", retry_after).build()
}

fn meaning(status: u16) -> &'static str {
    match status {
        400 => "The request is invalid; `details` names each field.",
        401 => "The token is missing or unknown.",
        403 => {
            "The token's role is not sufficient; the error names the role required. Without tokens: the request comes from a page of another site."
        }
        404 => "Not found.",
        408 => "The body arrived too slowly.",
        409 => "The request conflicts with the current state; the error gives the reason.",
        410 => {
            "The item has ended and is in an archive file; the error names the day, the file and its SHA-256."
        }
        413 => "The body is too large.",
        414 => "The URL is longer than 4096 bytes.",
        415 => "Unsupported `Content-Type`, or the body has a `Content-Encoding`.",
        422 => "Refused by a rule; `details` names it.",
        503 => "Temporarily unavailable. Send the same request again after `Retry-After`.",
        _ => "Internal error. The server log has the cause.",
    }
}
