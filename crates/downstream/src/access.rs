//! What it takes to get in at a downstream besides its URL: whom to trust, and what to show.
//! Header values are secrets: no error and no `Debug` holds one.

use std::path::{Path, PathBuf};

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::login::LoginOptions;

/// Headers that say how the message is framed or what the contract promises: not for others to set.
const OURS: [&str; 13] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

#[derive(Debug, Clone, Default)]
pub struct Access {
    root_certificates: Option<PathBuf>,
    /// Each value is marked as sensitive.
    headers: HeaderMap,
    logins: Vec<LoginOptions>,
    identity: Option<Identity>,
}

/// Who we are, with mutual TLS: PEM files that are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Access {
    /// With https: whom to trust, by a PEM file instead of the system's authorities.
    pub fn trusting(root_certificates: Option<PathBuf>) -> Self {
        Self {
            root_certificates,
            ..Self::default()
        }
    }

    /// Logs in with every request, besides the headers.
    pub fn log_in(&mut self, login: LoginOptions) {
        self.logins.push(login);
    }

    /// Shows this certificate with mutual TLS.
    pub fn identify(&mut self, certificate: PathBuf, key: PathBuf) {
        self.identity = Some(Identity { certificate, key });
    }

    /// Sends the header with every request. The sentence it answers with never holds the value.
    pub fn add_header(&mut self, name: &str, value: &str) -> Result<(), String> {
        let name: HeaderName = name
            .parse()
            .map_err(|_| format!("{name:?} is not a header name"))?;
        if OURS.contains(&name.as_str()) {
            return Err("is set by Tollgate".to_owned());
        }
        if value.trim().is_empty() {
            return Err("its value is empty".to_owned());
        }
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| "its value has characters that are not allowed in a header".to_owned())?;
        value.set_sensitive(true);
        match self.headers.insert(name, value) {
            None => Ok(()),
            Some(_) => Err("is given twice".to_owned()),
        }
    }

    pub(crate) fn root_file(&self) -> Option<&Path> {
        self.root_certificates.as_deref()
    }

    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    pub(crate) fn logins(&self) -> &[LoginOptions] {
        &self.logins
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_cannot_be_sent_is_refused_without_showing_its_value() {
        let table = [
            ("Autho rization", "secret", "is not a header name"),
            ("", "secret", "is not a header name"),
            ("Host", "secret", "set by Tollgate"),
            ("Idempotency-Key", "secret", "set by Tollgate"),
            ("Transfer-Encoding", "secret", "set by Tollgate"),
            ("Authorization", "secret\r\nx: y", "not allowed in a header"),
            ("Authorization", "secret\u{7}", "not allowed in a header"),
            ("Authorization", " ", "is empty"),
            ("x-KEY", "secret", "given twice"),
        ];
        for (name, value, why) in table {
            let mut access = Access::default();
            access.add_header("X-Key", "secret").unwrap();
            let said = access.add_header(name, value).unwrap_err();
            assert!(said.contains(why), "{name}: {said}");
            assert!(!said.contains("secret"), "{said}");
        }
    }

    #[test]
    fn a_value_is_not_shown() {
        let mut access = Access::default();
        access.add_header("Authorization", "Bearer secret").unwrap();
        let shown = format!("{access:?}");
        assert!(shown.contains("authorization") && !shown.contains("secret"));
    }
}
