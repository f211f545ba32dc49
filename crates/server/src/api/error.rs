//! The one place where errors become status and body: `{"error": "…", "details": {field: message}}`.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::Value;
use tollgate_core::ports::StoreError;
use tollgate_domains::invoices::BillingError;
use tollgate_domains::json::{self, Refused};
use tollgate_domains::payments::IntakeError;
use utoipa::ToSchema;

#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    body: ErrorBody,
}

/// Every error of the API.
#[derive(Debug, Serialize, ToSchema)]
#[schema(
    as = Error,
    example = json!({"error": "Validation failed", "details": {"amount": "must be greater than zero"}})
)]
pub(super) struct ErrorBody {
    /// What is wrong, in one sentence.
    error: String,
    /// What is wrong with each field, by its name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    details: BTreeMap<String, String>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self {
            status,
            body: ErrorBody {
                error: error.into(),
                details: BTreeMap::new(),
            },
        }
    }
    /// Of an operation whose bodies may be larger than others'.
    pub(super) fn with_limit(mut self, limit: &str) -> Self {
        if self.status == StatusCode::PAYLOAD_TOO_LARGE {
            self.body.error = format!("the body is larger than {limit}");
        }
        self
    }
    pub(super) fn not_found(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }
    pub(super) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "this address does not know that method",
        )
    }
    pub(super) fn conflict(error: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, error)
    }
    pub(super) fn invalid(details: BTreeMap<String, String>) -> Self {
        let mut invalid = Self::new(StatusCode::BAD_REQUEST, "Validation failed");
        invalid.body.details = details;
        invalid
    }
    pub(super) fn refused(details: BTreeMap<String, String>) -> Self {
        let mut refused = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Refused by a rule");
        refused.body.details = details;
        refused
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body)).into_response();
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
            BillingError::Conflict(why) => Self::conflict(why),
            BillingError::Refused(why) => {
                Self::refused(BTreeMap::from([("schedule".to_owned(), why)]))
            }
            BillingError::Store(error) => error.into(),
        }
    }
}

/// Clients learn that they should come back, operators learn why.
pub(super) fn unavailable(why: &str) -> ApiError {
    tracing::warn!(why, "answered 503");
    ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "not available right now; send the same request again, one id is never paid twice",
    )
}

pub(super) fn internal(why: &str) -> ApiError {
    tracing::error!(why, "answered 500");
    ApiError::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "internal error; see the log",
    )
}

/// A JSON body, or the sentence that says why it is none.
pub(super) fn json_body(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Value, ApiError> {
    let bytes = bytes_of(headers, body, "application/json")?;
    json::read(&bytes).map_err(|refused| match refused {
        Refused::Syntax(_) => ApiError::new(StatusCode::BAD_REQUEST, format!("the body {refused}")),
        Refused::Field { .. } => ApiError::invalid(refused.details("body")),
    })
}

/// A body of a type, or the sentence that says why it is none.
pub(super) fn bytes_of(
    headers: &HeaderMap,
    body: Result<Bytes, BytesRejection>,
    kind: &str,
) -> Result<Bytes, ApiError> {
    let given = headers.get(header::CONTENT_TYPE);
    let given = given.and_then(|v| v.to_str().ok()).unwrap_or("");
    let essence = given.split(';').next().unwrap_or("").trim();
    if !essence.eq_ignore_ascii_case(kind) {
        let error = format!("Content-Type must be {kind}");
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
