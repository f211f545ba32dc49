//! The one place where errors become status and body:
//! `{"error": "…", "code": "…", "requestId": "…", "details": {field: message}}`.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tollgate_contract as contract;
use tollgate_core::ports::StoreError;
use tollgate_domains::invoices::BillingError;
use tollgate_domains::json::{self, Refused};
use tollgate_domains::payments::IntakeError;

use super::codes::Code;

#[derive(Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    failure: Failure,
}

/// What is known of an error when its answer leaves; `request/request_id.rs` adds the id.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    /// On the heap: every answer of the API may be an error.
    pub(crate) body: Box<contract::Error>,
    /// False where another contract fixes the body to the letter.
    pub(crate) names_request: bool,
    /// For operators, and never for clients.
    why: Option<Box<str>>,
}

impl Failure {
    /// Clients learn that they should come back, operators learn why.
    pub(crate) fn log(&self, request_id: &str) {
        let Some(why) = &self.why else { return };
        match self.code {
            Code::InternalError => tracing::error!(why, request_id, "answered 500"),
            _ => tracing::warn!(why, request_id, "answered 503"),
        }
    }
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        let code = Code::of(status);
        let body = contract::Error {
            error: error.into(),
            code: code.as_str().to_owned(),
            request_id: String::new(),
            details: BTreeMap::new(),
            preview: None,
        };
        let failure = Failure {
            code,
            body: Box::new(body),
            names_request: true,
            why: None,
        };
        Self { status, failure }
    }
    /// With a code that says more than the status does.
    pub(crate) fn coded(mut self, code: Code) -> Self {
        self.failure.code = code;
        code.as_str().clone_into(&mut self.failure.body.code);
        self
    }
    /// A wrong request in the form that the contract of status checks fixes: without code and id.
    pub(crate) fn bare(mut self) -> Self {
        self.failure.names_request = self.status != StatusCode::BAD_REQUEST;
        self
    }
    fn because(mut self, why: &str) -> Self {
        self.failure.why = Some(why.into());
        self
    }
    /// Of an operation whose bodies may be larger than others'.
    pub(crate) fn with_limit(mut self, limit: &str) -> Self {
        if self.status == StatusCode::PAYLOAD_TOO_LARGE {
            self.failure.body.error = format!("the body is larger than {limit}");
        }
        self
    }
    pub(crate) fn not_found(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }
    pub(crate) fn method_not_allowed(allowed: Option<&str>) -> Self {
        let error = match allowed {
            Some(allowed) => format!("method not allowed; allowed: {allowed}"),
            None => "method not allowed".to_owned(),
        };
        Self::new(StatusCode::METHOD_NOT_ALLOWED, error)
    }
    pub(crate) fn conflict(error: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, error)
    }
    /// It has ended and lies in a file of the archive.
    pub(crate) fn gone(error: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, error)
    }
    /// A change whose effect must be confirmed first.
    pub(crate) fn unconfirmed(error: impl Into<String>) -> Self {
        Self::conflict(error).coded(Code::ConfirmationRequired)
    }
    /// What was confirmed is not what would be done now.
    pub(crate) fn stale(error: impl Into<String>, preview: contract::JobPreview) -> Self {
        let mut stale = Self::conflict(error).coded(Code::PreviewStale);
        stale.failure.body.preview = Some(Box::new(preview));
        stale
    }
    pub(crate) fn invalid(details: BTreeMap<String, String>) -> Self {
        let invalid = Self::new(StatusCode::BAD_REQUEST, "Validation failed");
        let mut invalid = invalid.coded(Code::ValidationFailed);
        invalid.failure.body.details = details;
        invalid
    }
    pub(crate) fn refused(details: BTreeMap<String, String>) -> Self {
        let mut refused = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Refused by a rule");
        refused.failure.body.details = details;
        refused
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = if self.failure.names_request {
            (self.status, Json(&self.failure.body)).into_response()
        } else {
            let contract::Error { error, details, .. } = *self.failure.body.clone();
            (
                self.status,
                Json(contract::CheckStatusError { error, details }),
            )
                .into_response()
        };
        response.extensions_mut().insert(self.failure);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
        }
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(why) | StoreError::Fenced(why) => unavailable(&why),
            StoreError::Invalid(why) => Self::new(StatusCode::BAD_REQUEST, why),
            StoreError::Bug(why) => internal(&why),
        }
    }
}

impl From<IntakeError> for ApiError {
    fn from(error: IntakeError) -> Self {
        match error {
            IntakeError::Unavailable(why) => unavailable(&why),
            IntakeError::Failed(why) => internal(&why),
        }
    }
}

impl From<BillingError> for ApiError {
    fn from(error: BillingError) -> Self {
        match error {
            BillingError::Invalid(details) => Self::invalid(details),
            BillingError::NotFound(why) => Self::not_found(why),
            BillingError::Known(why) => Self::conflict(why).coded(Code::IdConflict),
            BillingError::Erased(_) => Self::conflict(error.to_string()).coded(Code::Erased),
            BillingError::Archived(why) => Self::gone(why),
            BillingError::Unchangeable(why) => Self::conflict(why).coded(Code::Archived),
            BillingError::Conflict(why) => Self::conflict(why),
            BillingError::Refused(why) => {
                Self::refused(BTreeMap::from([("schedule".to_owned(), why)]))
            }
            BillingError::Store(error) => error.into(),
        }
    }
}

pub(crate) fn unavailable(why: &str) -> ApiError {
    let error = ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "temporarily unavailable; send the same request again, an id is never paid twice",
    );
    error.because(why)
}

pub(crate) fn internal(why: &str) -> ApiError {
    let error = ApiError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal error; see the log",
    );
    error.because(why)
}

/// A JSON body, or the sentence that says why it is none.
pub(crate) fn json_body(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Value, ApiError> {
    let bytes = bytes_of(headers, body, &["application/json"])?;
    json::read(&bytes).map_err(|refused| match refused {
        Refused::Syntax(_) => ApiError::new(StatusCode::BAD_REQUEST, format!("the body {refused}")),
        Refused::Field { .. } => ApiError::invalid(refused.details("body")),
    })
}

/// A body of a type, or the sentence that says why it is none.
pub(crate) fn bytes_of(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
    kinds: &[&str],
) -> Result<Bytes, ApiError> {
    let given = headers.get(header::CONTENT_TYPE);
    let given = given.and_then(|v| v.to_str().ok()).unwrap_or("");
    let essence = given.split(';').next().unwrap_or("").trim();
    if !kinds.iter().any(|kind| essence.eq_ignore_ascii_case(kind)) {
        let error = format!("Content-Type must be {}", kinds.join(" or "));
        return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error));
    }
    body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the body is larger than 64 KiB",
        ),
        status => ApiError::new(status, "the body could not be read"),
    })
}
