//! What a single request may cost: the length of its address, and the time its body takes. And what
//! every answer says to a browser.

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

use super::error::ApiError;

/// Path and query together.
const MAX_ADDRESS_BYTES: usize = 4 * 1024;
/// This much of a body must come within its time: whole small ones, and each part of a large one.
const BODY_PART_BYTES: usize = 64 * 1024;

/// Bounds a request before anything else looks at it.
pub(crate) async fn bound(
    State(patience): State<Duration>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = bounded(patience, request, next).await;
    let headers = response.headers_mut();
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    let no_store = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    response
}

async fn bounded(patience: Duration, request: Request, next: Next) -> Response {
    let address = request.uri().path_and_query();
    if address.is_some_and(|address| address.as_str().len() > MAX_ADDRESS_BYTES) {
        let error = format!("the address is longer than {MAX_ADDRESS_BYTES} bytes");
        return ApiError::new(StatusCode::URI_TOO_LONG, error).into_response();
    }
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
        "the body came too slowly: each {} KiB must arrive within {} seconds",
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
