//! What a single request may be: the length of its address, the time its body takes, and what it must not contain.
//! And what every answer says to a browser.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use futures::stream::unfold;

use super::body::wrong;
use crate::answer::error::ApiError;

/// Path and query together.
const MAX_ADDRESS_BYTES: usize = 4 * 1024;
/// This much of a body must come within its time: whole small ones, and each part of a large one.
const BODY_PART_BYTES: usize = 64 * 1024;

/// Half a year: browsers ask for nothing but TLS meanwhile.
const STRICT_TRANSPORT: &str = "max-age=15768000";

/// What is asked of every request, and said in every answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) body_patience: Duration,
    /// Whether TLS protects what is said, be it ours or a proxy's.
    pub(crate) by_tls: bool,
}

/// Bounds a request before anything else looks at it.
pub(crate) async fn bound(State(bounds): State<Bounds>, request: Request, next: Next) -> Response {
    let mut response = match check(&request) {
        Ok(()) => bounded(bounds.body_patience, request, next).await,
        Err(refused) => refused.into_response(),
    };
    let headers = response.headers_mut();
    if bounds.by_tls {
        let strict = HeaderValue::from_static(STRICT_TRANSPORT);
        headers.insert(header::STRICT_TRANSPORT_SECURITY, strict);
    }
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    let no_store = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    response
}

fn check(request: &Request) -> Result<(), ApiError> {
    let address = request.uri().path_and_query();
    let address = address.map_or("", |address| address.as_str());
    if address.len() > MAX_ADDRESS_BYTES {
        let error = format!("the address is longer than {MAX_ADDRESS_BYTES} bytes");
        return Err(ApiError::new(StatusCode::URI_TOO_LONG, error));
    }
    if address.contains("%00") {
        return Err(wrong("address", "must not contain the character NUL"));
    }
    let headers = request.headers();
    if headers.get_all(header::HOST).iter().count() > 1 {
        return Err(wrong("Host", "must be given once"));
    }
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    if codings.any(|coding| !is_identity(coding)) {
        let error = "Content-Encoding is not supported; send the body without encoding it";
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error));
    }
    Ok(())
}

fn is_identity(coding: &HeaderValue) -> bool {
    let coding = coding.as_bytes().trim_ascii();
    coding.eq_ignore_ascii_case(b"identity")
}

async fn bounded(patience: Duration, request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let late = Arc::new(AtomicBool::new(false));
    let request = request.map(|body| in_time(body, patience, Arc::clone(&late)));
    let response = next.run(request).await;
    if !late.load(Ordering::Relaxed) {
        return response;
    }
    let error = format!(
        "the body arrived too slowly: each {} KiB must arrive within {} seconds",
        BODY_PART_BYTES / 1024,
        patience.as_secs()
    );
    let mut response = ApiError::new(StatusCode::REQUEST_TIMEOUT, error).into_response();
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

/// The same body, which breaks off when a part of it is late.
fn in_time(body: Body, patience: Duration, late: Arc<AtomicBool>) -> Body {
    let part = Part {
        left: BODY_PART_BYTES,
        over: Box::pin(tokio::time::sleep(patience)),
    };
    let state = Some((body.into_data_stream(), part));
    let pieces = unfold(state, move |state| {
        let late = Arc::clone(&late);
        async move {
            let (mut body, mut part) = state?;
            tokio::select! {
                // What is there is taken, however late it is looked at.
                biased;
                piece = body.next() => {
                    let piece = piece?;
                    if let Ok(bytes) = &piece {
                        part.count(bytes, patience);
                    }
                    Some((piece, Some((body, part))))
                }
                () = &mut part.over => {
                    late.store(true, Ordering::Relaxed);
                    Some((Err(axum::Error::new("too slow")), None))
                }
            }
        }
    });
    // Whoever reads on after the end is told again that it is the end.
    Body::from_stream(pieces.fuse())
}

/// What must still come, and until when.
struct Part {
    left: usize,
    over: std::pin::Pin<Box<tokio::time::Sleep>>,
}

impl Part {
    fn count(&mut self, bytes: &Bytes, patience: Duration) {
        match self.left.checked_sub(bytes.len()) {
            Some(left) if left > 0 => self.left = left,
            _ => {
                self.left = BODY_PART_BYTES;
                self.over = Box::pin(tokio::time::sleep(patience));
            }
        }
    }
}
