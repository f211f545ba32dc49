//! Calls of the API, within the process and as the reader.

use std::collections::BTreeMap;
use std::fmt::Write;

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tollgate_contract as contract;
use tower::ServiceExt;

use super::Console;
use super::door::Away;
use super::session::{SIGN_IN, Session};
use super::shell::ErrorPage;

/// The largest answer that a page reads.
const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;
/// All that could be more than a part of an address.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Why there is no page: what the API said.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    pub(super) error: String,
    pub(super) details: BTreeMap<String, String>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            error: error.into(),
            details: BTreeMap::new(),
        }
    }

    /// Nobody can be known while the store is away.
    pub(super) fn store_away(Away(error): &Away) -> Self {
        tracing::warn!(error, "sessions cannot be read");
        let error = "the store cannot be reached right now; try again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }

    /// Whoever says so has logged why.
    pub(super) fn internal() -> Self {
        let error = "internal error; see the log";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error)
    }

    fn from_answer(status: StatusCode, body: &[u8]) -> Self {
        match serde_json::from_slice::<contract::Error>(body) {
            Ok(body) => Self {
                status,
                error: body.error,
                details: body.details,
            },
            Err(_) => Self::new(status, String::from_utf8_lossy(body)),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        if self.status == StatusCode::UNAUTHORIZED {
            return Redirect::to(SIGN_IN).into_response();
        }
        let mut response = ErrorPage::of(None, self.clone());
        // A reader who is known gets it with the menu: `with_menu`.
        response.extensions_mut().insert(self);
        response
    }
}

impl Console {
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        session: &Session,
        address: &str,
    ) -> Result<T, Problem> {
        let request = Request::get(address).body(Body::empty());
        let answer = self.answer(session, request.map_err(unusual)?).await?;
        decode(&read(answer).await?)
    }

    /// Does something; what it answers is on the page that comes next.
    pub(super) async fn act(
        &self,
        session: &Session,
        method: Method,
        address: &str,
        body: &Value,
    ) -> Result<Value, Problem> {
        let request = Request::builder().method(method).uri(address);
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(body.to_string()));
        let answer = self.answer(session, request.map_err(unusual)?).await?;
        decode(&read(answer).await?)
    }

    /// The API's answer, if it is one of success.
    pub(super) async fn answer(
        &self,
        session: &Session,
        mut request: Request<Body>,
    ) -> Result<Response, Problem> {
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        request.extensions_mut().insert(session.reader.clone());
        let Ok(answer) = self.api.clone().oneshot(request).await;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        Err(Problem::from_answer(status, &read(answer).await?))
    }
}

async fn read(answer: Response) -> Result<Vec<u8>, Problem> {
    let bytes = axum::body::to_bytes(answer.into_body(), MAX_ANSWER_BYTES).await;
    let bytes = bytes.map_err(|_| {
        let error = "the answer is too large for a page; use the API or the command line";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error)
    })?;
    Ok(bytes.to_vec())
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes).map_err(|error| {
        tracing::error!(%error, "the console cannot read the API's answer");
        Problem::internal()
    })
}

fn unusual(_: axum::http::Error) -> Problem {
    Problem::new(
        StatusCode::BAD_REQUEST,
        "the address of this page is invalid",
    )
}

/// A part of an address, whatever is in it.
pub(super) fn part(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// `name=value` for all that have a value, for the end of an address.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let mut query = String::new();
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        let sign = if query.is_empty() { '?' } else { '&' };
        let _ = write!(query, "{sign}{name}={}", part(value));
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_in_a_name_stays_within_its_part_of_the_address() {
        assert_eq!(part("pay_1.a-b:c"), "pay_1.a-b%3Ac");
        assert_eq!(part("../x?y#z&ü"), "..%2Fx%3Fy%23z%26%C3%BC");
        assert_eq!(
            query(&[("a", "1&b=2"), ("c", ""), ("d", "x")]),
            "?a=1%26b%3D2&d=x"
        );
        assert_eq!(query(&[("a", "")]), "");
    }
}
