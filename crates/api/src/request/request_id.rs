//! Every request has an id: the client's own if it sent a good one, else a new one. Every answer carries
//! it in `X-Request-Id`; an error also in its body, and with its code in `Tollgate-Error-Code`. The log
//! line of a failure has it, too.

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use uuid::Uuid;

use crate::answer::codes::Code;
use crate::answer::error::Failure;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const ERROR_CODE: HeaderName = HeaderName::from_static("tollgate-error-code");
/// A longer id of a client is replaced.
const MAX_ID_CHARS: usize = 128;

/// Outside of all other layers, so that what they refuse is marked as well.
pub(crate) async fn identify(request: Request, next: Next) -> Response {
    let id = given(request.headers()).unwrap_or_else(|| Uuid::new_v4().to_string());
    let response = next.run(request).await;
    let mut response = marked(response, &id);
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

fn given(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let is_good = !id.is_empty()
        && id.len() <= MAX_ID_CHARS
        && id
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c));
    is_good.then(|| id.to_owned())
}

/// An error with its code, and with its id in the body unless that is fixed by another contract.
fn marked(mut response: Response, id: &str) -> Response {
    let status = response.status();
    if status.as_u16() < StatusCode::BAD_REQUEST.as_u16() {
        return response;
    }
    let failure = response.extensions_mut().remove::<Failure>();
    let code = failure.as_ref().map_or(Code::of(status), |f| f.code);
    if let Some(failure) = failure {
        failure.log(id);
        if failure.names_request {
            response = with_body(response, failure, id);
        }
    }
    let code = HeaderValue::from_static(code.as_str());
    response.headers_mut().insert(ERROR_CODE, code);
    response
}

fn with_body(response: Response, failure: Failure, id: &str) -> Response {
    let (mut head, _) = response.into_parts();
    let mut body = failure.body;
    id.clone_into(&mut body.request_id);
    let written = Json(body).into_response();
    let (written, body) = written.into_parts();
    head.headers.remove(axum::http::header::CONTENT_LENGTH);
    head.headers.extend(written.headers);
    Response::from_parts(head, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_the_client_is_kept_if_it_is_harmless() {
        let kept = |id: &'static str| {
            let headers = HeaderMap::from_iter([(REQUEST_ID, HeaderValue::from_static(id))]);
            given(&headers)
        };
        assert_eq!(kept("trace-1_a.b:c").as_deref(), Some("trace-1_a.b:c"));
        assert_eq!(kept(""), None);
        assert_eq!(kept("a b"), None);
        assert_eq!(kept("<script>"), None);
        assert_eq!(given(&HeaderMap::new()), None);
    }
}
