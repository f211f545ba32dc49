//! `login` of a bank: how it lets us in. Every secret may stand elsewhere and change while the server runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use tollgate_downstream::{Access, HmacOptions, LoginOptions, OAuthOptions, SecretSource};

use super::secret::Secret;

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Login {
    /// `Authorization: Bearer …`
    Bearer {
        token: Secret,
    },
    ApiKey {
        header: String,
        key: Secret,
    },
    Basic {
        user: Secret,
        password: Secret,
    },
    /// Client credentials.
    Oauth2 {
        token_url: String,
        client_id: Secret,
        client_secret: Secret,
        scope: Option<String>,
        /// Sends id and secret in the form instead of as a basic login.
        #[serde(default)]
        in_body: bool,
        /// How long tokens live whose answer has no `expires_in`.
        expires_in_secs: Option<u64>,
        root_certificates: Option<PathBuf>,
    },
    /// A signature over a canonical string.
    Hmac {
        key: Secret,
        sign: String,
        header: String,
        #[serde(default = "signature_alone")]
        value: String,
        timestamp_header: Option<String>,
        #[serde(default)]
        algorithm: Algorithm,
        #[serde(default)]
        encoding: Encoding,
    },
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    #[default]
    Sha256,
    Sha512,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    #[default]
    Hex,
    Base64,
}

fn signature_alone() -> String {
    "{signature}".to_owned()
}

impl Login {
    pub fn options(&self) -> LoginOptions {
        let source = |secret: &Secret| secret.source();
        match self {
            Self::Bearer { token } => LoginOptions::Header {
                name: "authorization".to_owned(),
                prefix: "Bearer ".to_owned(),
                secret: source(token),
            },
            Self::ApiKey { header, key } => LoginOptions::Header {
                name: header.clone(),
                prefix: String::new(),
                secret: source(key),
            },
            Self::Basic { user, password } => LoginOptions::Basic {
                user: source(user),
                password: source(password),
            },
            Self::Oauth2 {
                token_url,
                client_id,
                client_secret,
                scope,
                in_body,
                expires_in_secs,
                root_certificates,
            } => LoginOptions::OAuth(OAuthOptions {
                token_url: token_url.clone(),
                client_id: source(client_id),
                client_secret: source(client_secret),
                scope: scope.clone(),
                in_body: *in_body,
                expires_in: expires_in_secs.map(Duration::from_secs),
                root_certificates: root_certificates.clone(),
            }),
            Self::Hmac {
                key,
                sign,
                header,
                value,
                timestamp_header,
                algorithm,
                encoding,
            } => LoginOptions::Hmac(HmacOptions {
                key: source(key),
                sign: sign.clone(),
                header: header.clone(),
                value: value.clone(),
                timestamp_header: timestamp_header.clone(),
                sha512: *algorithm == Algorithm::Sha512,
                base64: *encoding == Encoding::Base64,
            }),
        }
    }
}

impl Secret {
    /// To be read again and again.
    pub fn source(&self) -> SecretSource {
        let secret = self.clone();
        SecretSource::new(move || secret.value())
    }
}

/// A certificate is of no use without its key.
pub fn identify(
    access: &mut Access,
    certificate: Option<&Path>,
    key: Option<&Path>,
) -> Result<(), String> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => {
            access.identify(certificate.to_owned(), key.to_owned());
            Ok(())
        }
        (Some(_), None) => Err("client_key is missing: client_certificate requires it".to_owned()),
        (None, Some(_)) => Err("client_certificate is missing: client_key requires it".to_owned()),
        (None, None) => Ok(()),
    }
}
