//! The stable codes of errors: what a client's code decides by, while sentences may change.

use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

/// Stable code of an error. See docs/errors.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ErrorCode)]
pub(crate) enum Code {
    InvalidRequest,
    ValidationFailed,
    TokenRequired,
    TokenUnknown,
    RoleInsufficient,
    HostNotAllowed,
    CrossSite,
    NotFound,
    MethodNotAllowed,
    BodyTooSlow,
    Conflict,
    IdConflict,
    Erased,
    ConfirmationRequired,
    PreviewStale,
    Archived,
    ArchiveMismatch,
    BodyTooLarge,
    UrlTooLong,
    UnsupportedMediaType,
    RefusedByRule,
    InternalError,
    Unavailable,
    Overloaded,
}

impl Code {
    /// All of them, in the order of their statuses; the table of docs/errors.md.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 24] = [
        Self::InvalidRequest,
        Self::ValidationFailed,
        Self::TokenRequired,
        Self::TokenUnknown,
        Self::RoleInsufficient,
        Self::HostNotAllowed,
        Self::CrossSite,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::BodyTooSlow,
        Self::Conflict,
        Self::IdConflict,
        Self::Erased,
        Self::ConfirmationRequired,
        Self::PreviewStale,
        Self::Archived,
        Self::ArchiveMismatch,
        Self::BodyTooLarge,
        Self::UrlTooLong,
        Self::UnsupportedMediaType,
        Self::RefusedByRule,
        Self::InternalError,
        Self::Unavailable,
        Self::Overloaded,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::ValidationFailed => "validation_failed",
            Self::TokenRequired => "token_required",
            Self::TokenUnknown => "token_unknown",
            Self::RoleInsufficient => "role_insufficient",
            Self::HostNotAllowed => "host_not_allowed",
            Self::CrossSite => "cross_site",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::BodyTooSlow => "body_too_slow",
            Self::Conflict => "conflict",
            Self::IdConflict => "id_conflict",
            Self::Erased => "erased",
            Self::ConfirmationRequired => "confirmation_required",
            Self::PreviewStale => "preview_stale",
            Self::Archived => "archived",
            Self::ArchiveMismatch => "archive_mismatch",
            Self::BodyTooLarge => "body_too_large",
            Self::UrlTooLong => "url_too_long",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::RefusedByRule => "refused_by_rule",
            Self::InternalError => "internal_error",
            Self::Unavailable => "unavailable",
            Self::Overloaded => "overloaded",
        }
    }

    /// The code of a status, where nothing more is known.
    pub(crate) fn of(status: StatusCode) -> Self {
        match status {
            StatusCode::UNAUTHORIZED => Self::TokenRequired,
            StatusCode::FORBIDDEN => Self::RoleInsufficient,
            StatusCode::NOT_FOUND => Self::NotFound,
            StatusCode::METHOD_NOT_ALLOWED => Self::MethodNotAllowed,
            StatusCode::REQUEST_TIMEOUT => Self::BodyTooSlow,
            StatusCode::CONFLICT => Self::Conflict,
            StatusCode::GONE => Self::Archived,
            StatusCode::PAYLOAD_TOO_LARGE => Self::BodyTooLarge,
            StatusCode::URI_TOO_LONG => Self::UrlTooLong,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Self::UnsupportedMediaType,
            StatusCode::UNPROCESSABLE_ENTITY => Self::RefusedByRule,
            StatusCode::SERVICE_UNAVAILABLE => Self::Unavailable,
            status if status.is_client_error() => Self::InvalidRequest,
            _ => Self::InternalError,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_written_as_it_is_sent_and_documented() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/errors.md");
        let page = std::fs::read_to_string(page).unwrap();
        for code in Code::ALL {
            let sent = serde_json::to_value(code).unwrap();
            assert_eq!(sent, code.as_str());
            let row = format!("| `{}` |", code.as_str());
            assert!(page.contains(&row), "docs/errors.md has no row {row}");
        }
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        assert_eq!(
            rows.count(),
            Code::ALL.len(),
            "a row of docs/errors.md is old"
        );
    }
}
