//! Errors: the API refused, the connection failed, or the answer is not what the contract says.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderMap;
use tollgate_contract::{CheckStatusError, JobPreview};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a call failed.
///
/// After [`Error::Interrupted`] and [`Error::Timeout`] it is unknown whether the server did what it was asked. Ask
/// again: ids and idempotency keys make a repetition harmless.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting of the client is wrong. Nothing was sent.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The request cannot be written as HTTP. Nothing was sent.
    #[error("the request is not valid")]
    Request(#[source] BoxError),
    /// The file to upload cannot be read. Nothing was sent.
    #[error("{} cannot be read", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        source: io::Error,
    },
    /// No connection to the server. Nothing was sent.
    #[error("cannot reach {host}")]
    Unreachable {
        /// Host and port of the server.
        host: String,
        /// Why there is no connection.
        source: io::Error,
    },
    /// The TLS handshake failed, for example because the certificate is not trusted. Nothing was sent.
    #[error("TLS connection to {host} failed")]
    Tls {
        /// Host and port of the server.
        host: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The connection ended before the answer was complete.
    #[error("{host} ended the connection without a complete answer")]
    Interrupted {
        /// Host and port of the server.
        host: String,
        /// Why it ended.
        source: BoxError,
    },
    /// The answer did not arrive within the client's patience.
    #[error("no answer from {host} within {patience:?}")]
    Timeout {
        /// Host and port of the server.
        host: String,
        /// How long the client waited.
        patience: Duration,
        /// That time has passed.
        source: BoxError,
    },
    /// The server refused the request.
    #[error(transparent)]
    Refused(#[from] Box<Refused>),
    /// The answer is not JSON, or not what the contract says.
    #[error("{}", unreadable(.0))]
    Answer(#[source] serde_json::Error),
}

impl Error {
    /// The refusal, if the server was reached and refused the request.
    pub fn refused(&self) -> Option<&Refused> {
        match self {
            Self::Refused(refused) => Some(refused),
            _ => None,
        }
    }
}

fn unreadable(source: &serde_json::Error) -> &'static str {
    if source.is_data() {
        "the answer does not match the API's contract"
    } else {
        "the answer is not JSON"
    }
}

/// A wrong setting of the client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// The server's address is not an `http://` or `https://` address.
    #[error("\"{address}\" must be an address such as http://127.0.0.1:8090")]
    Address {
        /// The address as it was given.
        address: String,
        /// Why it cannot be read, if it is not an address at all.
        source: Option<BoxError>,
    },
    /// TLS needs a host name or an IP address.
    #[error("{host:?} is not a valid host name")]
    Host {
        /// The host of the address.
        host: String,
        /// Why it is not valid.
        source: BoxError,
    },
    /// A CA file was given with an `http://` address.
    #[error("a CA file requires an https:// address")]
    CaWithoutTls,
    /// The CA file cannot be used. The text names the file and the reason.
    #[error("CA file: {0}")]
    CaFile(String),
    /// The system has no root certificates.
    #[error(
        "https:// needs root certificates and none were found; install ca-certificates, or give a CA file"
    )]
    NoRoots,
    /// The token is empty, or has spaces or characters that are not ASCII.
    #[error("the token must be one word of visible ASCII characters")]
    Token,
}

/// The server's refusal.
#[derive(Debug, Clone)]
pub struct Refused {
    /// HTTP status, 400 to 599.
    pub status: u16,
    /// Stable code of the error; see docs/errors.md. None if something other than Tollgate answered, such as a proxy.
    pub code: Option<String>,
    /// Id of the request, also in the server's log.
    pub request_id: Option<String>,
    /// Error message: one sentence. It may change between releases.
    pub sentence: String,
    /// Errors by field name.
    pub details: BTreeMap<String, String>,
    /// With the code `preview_stale`: the new preview, to confirm instead.
    pub preview: Option<Box<JobPreview>>,
}

impl Refused {
    /// Reads the body; code and request id come from the headers where the body has none.
    pub(crate) fn read(status: u16, headers: &HeaderMap, body: &str) -> Self {
        let header = |name: &str| {
            let value = headers.get(name)?.to_str().ok()?;
            Some(value.to_owned())
        };
        let (code, request_id) = (header("tollgate-error-code"), header("x-request-id"));
        if let Ok(said) = serde_json::from_str::<tollgate_contract::Error>(body) {
            return Self {
                status,
                code: Some(said.code).filter(|code| !code.is_empty()).or(code),
                request_id: Some(said.request_id)
                    .filter(|id| !id.is_empty())
                    .or(request_id),
                sentence: said.error,
                details: said.details,
                preview: said.preview,
            };
        }
        let (sentence, details) = match serde_json::from_str::<CheckStatusError>(body) {
            Ok(said) => (said.error, said.details),
            Err(_) => {
                let sentence = format!("the service answered {status}: {body}");
                (sentence, BTreeMap::new())
            }
        };
        Self {
            status,
            code,
            request_id,
            sentence,
            details,
            preview: None,
        }
    }
}

/// The sentence, then one line per field.
impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        for (field, what) in &self.details {
            write!(f, "\n  {field}: {what}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_code_request_id_and_details() {
        let body = r#"{"error": "Validation failed", "code": "validation_failed", "requestId": "r-1",
            "details": {"amount": "must be greater than zero", "currency": "unknown"}}"#;
        let refused = Refused::read(400, &HeaderMap::new(), body);
        assert_eq!(refused.code.as_deref(), Some("validation_failed"));
        assert_eq!(refused.request_id.as_deref(), Some("r-1"));
        assert_eq!(refused.details["currency"], "unknown");
        let text = "Validation failed\n  amount: must be greater than zero\n  currency: unknown";
        assert_eq!(refused.to_string(), text);
    }

    #[test]
    fn headers_fill_in_what_the_body_does_not_have() {
        let mut headers = HeaderMap::new();
        headers.insert("tollgate-error-code", "validation_failed".parse().unwrap());
        headers.insert("x-request-id", "r-2".parse().unwrap());
        let refused = Refused::read(400, &headers, r#"{"error": "Validation failed"}"#);
        assert_eq!(refused.code.as_deref(), Some("validation_failed"));
        assert_eq!(refused.request_id.as_deref(), Some("r-2"));
    }

    #[test]
    fn an_answer_of_a_proxy_is_shown_as_it_came() {
        let refused = Refused::read(502, &HeaderMap::new(), "<h1>Bad gateway</h1>");
        assert_eq!(refused.code, None);
        let text = "the service answered 502: <h1>Bad gateway</h1>";
        assert_eq!(refused.to_string(), text);
    }
}
