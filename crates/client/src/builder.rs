//! The settings of a client.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Uri};

use crate::Client;
use crate::connection::Connector;
use crate::error::{Error, SettingError};
use crate::tls::Tls;

/// A replan of a million items takes its time.
const PATIENCE: Duration = Duration::from_mins(10);

/// Settings of a client. Begin with [`Client::builder`].
#[derive(Clone)]
#[must_use]
pub struct Builder {
    address: String,
    token: Option<String>,
    ca_file: Option<PathBuf>,
    patience: Duration,
}

/// Without the token.
impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("address", &self.address)
            .field("ca_file", &self.ca_file)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

impl Builder {
    pub(crate) fn new(address: &str) -> Self {
        Self {
            address: address.to_owned(),
            token: None,
            ca_file: None,
            patience: PATIENCE,
        }
    }

    /// The token to send with every request. Default: none, for a server without tokens.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// PEM file with the certificate authorities to trust instead of the system's. Requires an `https://` address.
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(file.into());
        self
    }

    /// How long to wait for an answer. Default: 10 minutes, enough for a replan of a million items. Uploads have no
    /// limit.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Checks the settings and makes the client. Does not connect.
    pub fn build(self) -> Result<Client, Error> {
        let wrong = |source| SettingError::Address {
            address: self.address.clone(),
            source,
        };
        let uri: Result<Uri, _> = self.address.parse();
        let uri = uri.map_err(|error| wrong(Some(error.into())))?;
        let authority = uri.authority().ok_or_else(|| wrong(None))?;
        let ca_file = self.ca_file.as_deref();
        let (tls, port) = match uri.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => (Some(Tls::to(authority.host(), ca_file)?), 443),
            _ => return Err(wrong(None).into()),
        };
        if tls.is_none() && ca_file.is_some() {
            return Err(SettingError::CaWithoutTls.into());
        }
        let port = authority.port_u16().unwrap_or(port);
        let connector = Connector {
            host: format!("{}:{port}", authority.host()),
            tls,
            token: self.token.as_deref().map(bearer).transpose()?,
            patience: self.patience,
        };
        Ok(Client {
            connector: Arc::new(connector),
        })
    }
}

fn bearer(token: &str) -> Result<HeaderValue, SettingError> {
    let is_one_word = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_one_word {
        return Err(SettingError::Token);
    }
    let header = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut header = header.map_err(|_| SettingError::Token)?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(builder: Builder) -> String {
        builder.build().unwrap_err().to_string()
    }

    #[test]
    fn wrong_settings_are_refused_before_anything_is_sent() {
        let local = "http://127.0.0.1:8090";
        for address in ["localhost:8090", "ftp://localhost", "http://"] {
            let said = refused(Client::builder(address));
            assert!(said.contains("must be an address"), "{address}: {said}");
        }
        let said = refused(Client::builder(local).ca_file("/ca.pem"));
        assert_eq!(said, "a CA file requires an https:// address");
        for token in ["", "two words", "ümlaut"] {
            let said = refused(Client::builder(local).token(token));
            assert!(said.starts_with("the token must be one word"), "{said}");
        }
    }

    #[test]
    fn the_token_is_never_shown() {
        let builder = Client::builder("http://127.0.0.1:8090").token("secret");
        assert!(!format!("{builder:?}").contains("secret"));
        let client = builder.build().unwrap();
        assert!(!format!("{client:?}").contains("secret"));
    }
}
