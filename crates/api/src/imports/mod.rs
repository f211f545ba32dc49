//! Imports: `POST /payments/bulk` takes a file of any size, streamed. The other files show imports: the list, the state of one
//! (`views.rs`), its rejected lines, its deadlines, and what happened to its payments since.

mod deadlines;
mod errors;
pub(crate) mod list;
mod since;
pub(crate) mod views;

use http_body_util::BodyExt;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::sync::{Semaphore, watch};
use tollgate_contract as contract;
use tollgate_core::id::BulkId;
use tollgate_core::ports::{BulkOrigin, Store};
use tollgate_dispatch::Wake;
use tollgate_domains::payments::bulk::{BulkIntake, Format, Taken, Upload, UploadError};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::answer::codes::Code;
use crate::answer::error::ApiError;
use crate::contract::refusals::Starts;
use crate::contract::words;
use crate::door::auth::Caller;
use crate::request::body::{is_octets, wrong};
use crate::request::extract::Query;

/// At most this many files are uploaded at once; each holds a chunk in memory.
const MAX_UPLOADS: usize = 8;
/// The longest name of a file; the document says so, too.
const MAX_NAME_CHARS: usize = 200;
/// At most this much is read on after a refusal, in bytes and in time.
const MAX_DRAINED: usize = 64 * 1024 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(5);
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Where uploads go in.
pub struct Uploads {
    intake: BulkIntake,
    room: Semaphore,
    fed: Wake,
    closing: watch::Receiver<bool>,
}

impl std::fmt::Debug for Uploads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uploads").finish_non_exhaustive()
    }
}

impl Uploads {
    /// `fed` is told when there is work; `closing` says that the server is about to stop.
    pub fn new(store: &Arc<dyn Store>, fed: Wake, closing: watch::Receiver<bool>) -> Self {
        let store = Arc::clone(store);
        Self {
            intake: BulkIntake { store },
            room: Semaphore::new(MAX_UPLOADS),
            fed,
            closing,
        }
    }
}

/// The last part of a file's name, whatever its sender's machine calls folders.
fn file_name(name: &str) -> Result<String, ApiError> {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name).trim();
    let is_fine = !name.is_empty() && name.chars().count() <= MAX_NAME_CHARS;
    if !is_fine || name.contains(char::is_control) {
        let what = format!("must have 1 to {MAX_NAME_CHARS} characters and no control characters");
        return Err(wrong("name", what));
    }
    Ok(name.to_owned())
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct UploadQuery {
    /// Format of a body of the type `application/octet-stream`.
    #[param(schema_with = words::upload_format)]
    format: Option<String>,
    /// Human-readable name of the file.
    #[param(min_length = 1, max_length = 200, example = "salaries.csv")]
    name: Option<String>,
}

/// Imports a file of payments of any size, one payment per line.
///
/// Answers when the file is durable; Tollgate then accepts its payments in the background. With an
/// `Idempotency-Key`, sending the same file again does not start a second import.
#[utoipa::path(
    post, path = "/payments/bulk", operation_id = "uploadPayments", tag = "imports",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Visible ASCII, at most 200 characters."),
        UploadQuery,
    ),
    request_body(
        description = "One payment per line as for `POST /payments`, or CSV with the same names as columns (`debtor.account`, …).",
        content(
            (String = "application/x-ndjson"),
            (String = "text/csv"),
            (inline(crate::request::body::BinaryFile) = "application/octet-stream"),
        ),
    ),
    responses(
        (status = 202, description = "The file is durable.", body = contract::Bulk),
        (status = 200, description = "The same file was sent before with this key.", body = contract::Bulk),
        Starts,
    ),
)]
async fn upload(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<UploadQuery>,
    headers: HeaderMap,
    mut body: Body,
) -> Result<Response, ApiError> {
    let format = format(&headers, query.format.as_deref())?;
    let key = key(&headers)?;
    let origin = BulkOrigin {
        file_name: query.name.as_deref().map(file_name).transpose()?,
        actor: Some(caller.name().to_owned()),
    };
    let Ok(_seat) = app.uploads.room.try_acquire() else {
        let error = format!("{MAX_UPLOADS} uploads are already in progress; try again");
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error);
        return Err(error.coded(Code::Overloaded));
    };
    let upload = app.uploads.intake.begin(format, key).await?;
    let given_up = GivenUp {
        store: Arc::clone(&app.store),
        bulk: upload.bulk(),
    };
    if let Some(bulk) = &given_up.bulk {
        app.store.name_bulk(bulk, origin).await?;
    }
    let mut closing = app.uploads.closing.clone();
    let taken = tokio::select! {
        taken = receive(upload, &mut body) => taken,
        // A stop does not wait for a file that may take hours.
        () = closed(&mut closing) => {
            let error = "the service is stopping; send the file again";
            return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error));
        }
    };
    if taken.is_err() {
        drain(body).await;
    }
    let taken = taken?;
    given_up.not();
    app.uploads.fed.wake();
    let status = if taken.repeat {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    let imported_at = if taken.repeat {
        let known = app.store.bulk(&taken.bulk).await?;
        known.and_then(|known| known.started_at)
    } else {
        app.acted(caller.name(), "file imported", taken.bulk.as_str());
        None
    };
    let told = contract::Bulk {
        batch_id: taken.bulk.to_string(),
        imported_at,
    };
    Ok((status, Json(told)).into_response())
}

async fn closed(closing: &mut watch::Receiver<bool>) {
    // A sender that is gone has nothing to say.
    if closing.wait_for(|closing| *closing).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn receive(mut upload: Upload, body: &mut Body) -> Result<Taken, ApiError> {
    loop {
        // Bounded as every body is: `request/limits.rs` breaks off one that comes too slowly.
        match body.frame().await {
            None => return Ok(upload.end().await?),
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    upload.push(&bytes).await?;
                }
            }
            Some(Err(_)) => {
                let error = "the upload was interrupted; nothing was imported";
                return Err(ApiError::new(StatusCode::BAD_REQUEST, error));
            }
        }
    }
}

/// Reads on for a while after a refusal: a client that is still sending would not see the answer.
async fn drain(mut body: Body) {
    let mut left = MAX_DRAINED;
    let reading = async {
        while let Some(Ok(frame)) = body.frame().await {
            let read = frame.data_ref().map_or(0, Bytes::len);
            left = left.saturating_sub(read);
            if left == 0 {
                break;
            }
        }
    };
    // Whoever is not done by then does without the answer.
    let _ = tokio::time::timeout(DRAIN_TIME, reading).await;
}

/// An upload that ends before its file, also because the client hung up and nobody waits for an
/// answer any more, leaves nothing that would run.
struct GivenUp {
    store: Arc<dyn Store>,
    bulk: Option<BulkId>,
}

impl GivenUp {
    fn not(mut self) {
        self.bulk = None;
    }
}

impl Drop for GivenUp {
    fn drop(&mut self) {
        let (Some(bulk), Ok(runtime)) = (self.bulk.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let store = Arc::clone(&self.store);
        // Nobody waits for it: if it does not come to it, the import runner's sweep does.
        runtime.spawn(async move {
            if let Err(error) = store.drop_upload(&bulk).await {
                tracing::warn!(%bulk, %error, "an interrupted upload could not be removed; the sweep removes it");
            }
        });
    }
}

/// By its content type, or, of bytes without a type of their own, by the query.
fn format(headers: &HeaderMap, asked: Option<&str>) -> Result<Format, ApiError> {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|value| value.to_str().ok()).unwrap_or("");
    let asked = match asked {
        None => None,
        Some("ndjson") => Some(Format::Ndjson),
        Some("csv") => Some(Format::Csv),
        Some(_) => return Err(wrong("format", "must be \"ndjson\" or \"csv\"")),
    };
    match (Format::of_media_type(kind), asked) {
        (Some(kind), Some(asked)) if kind != asked => Err(wrong(
            "format",
            "contradicts the Content-Type; leave it out",
        )),
        (Some(kind), _) => Ok(kind),
        (None, _) if !is_octets(kind) => {
            let error =
                "Content-Type must be application/x-ndjson, text/csv or application/octet-stream";
            Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error))
        }
        (None, Some(asked)) => Ok(asked),
        (None, None) => {
            let what = "is required with application/octet-stream: \"ndjson\" or \"csv\"";
            Err(wrong("format", what))
        }
    }
}

/// What is not text is not a key; the intake says what is.
fn key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else {
        return Ok(None);
    };
    let not_text =
        |_| crate::request::body::wrong("Idempotency-Key", "must be visible ASCII characters");
    value
        .to_str()
        .map(|key| Some(key.to_owned()))
        .map_err(not_text)
}

impl From<UploadError> for ApiError {
    fn from(error: UploadError) -> Self {
        match error {
            UploadError::Invalid(details) => Self::invalid(details),
            UploadError::Conflict(why) => Self::conflict(why),
            UploadError::Gone(why) => Self::new(StatusCode::REQUEST_TIMEOUT, why),
            UploadError::Store(error) => error.into(),
        }
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(upload))
        .routes(routes!(views::show))
        .routes(routes!(errors::errors))
        .merge(list::router())
}
