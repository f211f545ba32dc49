//! Errors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::JobPreview;
use crate::words;

/// Every error of the API.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(
    example = json!({
        "error": "Validation failed", "code": "validation_failed",
        "requestId": "7d5c1f2e-8a55-4c1e-9d7e-0f5b7a1c2d3e",
        "details": {"amount": "must be greater than zero"}
    })
)]
pub struct Error {
    /// Error message: one sentence. It may change between releases.
    pub error: String,
    /// Stable code of the error. See docs/errors.md.
    #[serde(default)]
    #[schema(schema_with = words::error_code, required = true)]
    pub code: String,
    /// Id of the request, also in the header `X-Request-Id` and in the server's log.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = true)]
    pub request_id: String,
    /// Errors by field name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub details: BTreeMap<String, String>,
    /// Only with the code `preview_stale`: the new preview, which you can confirm instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, nullable = false)]
    pub preview: Option<Box<JobPreview>>,
}

/// A validation error in the form that the contract of status checks prescribes.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[schema(
    example = json!({"error": "Validation failed", "details": {"paymentIds": "must not be empty"}})
)]
pub struct CheckStatusError {
    /// Error message: one sentence.
    pub error: String,
    /// Errors by field name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub details: BTreeMap<String, String>,
}
