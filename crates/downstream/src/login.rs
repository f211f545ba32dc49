//! How we are let in at a downstream: a header, a token that ends, or a signature over what is sent. Secrets are read
//! again while we run, and appear in no error and no `Debug`.

mod hmac;
mod oauth;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use tokio::time::Instant;

pub use self::hmac::HmacOptions;
use self::hmac::Signing;
use self::oauth::OAuth;
pub use self::oauth::OAuthOptions;
use crate::connection::OutRequest;
use crate::secret_source::{Rotating, SecretSource};

/// What is configured.
#[derive(Debug, Clone)]
pub enum LoginOptions {
    /// A bearer token, an API key: a header, and what stands before the secret in it.
    Header {
        name: String,
        prefix: String,
        secret: SecretSource,
    },
    Basic {
        user: SecretSource,
        password: SecretSource,
    },
    OAuth(OAuthOptions),
    Hmac(HmacOptions),
}

#[derive(Debug)]
pub(crate) enum Login {
    Header {
        name: HeaderName,
        prefix: String,
        secret: Rotating,
    },
    Basic {
        user: Rotating,
        password: Rotating,
    },
    OAuth(Arc<OAuth>),
    Hmac(Signing),
}

/// What was shown with one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    token: Option<u64>,
}

impl Login {
    /// Reads the secrets; asks nobody yet.
    pub(crate) fn new(options: LoginOptions) -> Result<Self, String> {
        let read = |what: &str, source: SecretSource| {
            Rotating::read(source).map_err(|why| format!("login.{what}: {why}"))
        };
        Ok(match options {
            LoginOptions::Header {
                name,
                prefix,
                secret,
            } => Self::Header {
                name: name
                    .parse()
                    .map_err(|_| format!("login.header: {name:?} is not the name of a header"))?,
                prefix,
                secret: read("secret", secret)?,
            },
            LoginOptions::Basic { user, password } => Self::Basic {
                user: read("user", user)?,
                password: read("password", password)?,
            },
            LoginOptions::OAuth(options) => Self::OAuth(Arc::new(OAuth::new(options)?)),
            LoginOptions::Hmac(options) => Self::Hmac(Signing::new(options)?),
        })
    }

    /// Returns when we can show something that is valid now; why not, otherwise.
    pub(crate) async fn ready(&self) -> Result<(), String> {
        match self {
            Self::OAuth(oauth) => oauth.token().await.map(drop),
            Self::Header { .. } | Self::Basic { .. } | Self::Hmac(_) => Ok(()),
        }
    }

    /// Adds what lets us in, before the right to send ends.
    pub(crate) async fn show(
        &self,
        request: &mut OutRequest,
        body: &str,
        at_secs: i64,
        use_by: Instant,
    ) -> Result<Ticket, String> {
        let mut ticket = Ticket { token: None };
        let (name, value) = match self {
            Self::Header {
                name,
                prefix,
                secret,
            } => (name.clone(), format!("{prefix}{}", secret.value())),
            Self::Basic { user, password } => {
                let both = STANDARD.encode(format!("{}:{}", user.value(), password.value()));
                (AUTHORIZATION, format!("Basic {both}"))
            }
            Self::OAuth(oauth) => {
                let token = tokio::time::timeout_at(use_by, oauth.token()).await;
                let (token, number) = token.map_err(|_| "the token is being renewed")??;
                ticket.token = Some(number);
                (AUTHORIZATION, format!("Bearer {token}"))
            }
            Self::Hmac(signing) => {
                signing.sign(request, body, at_secs)?;
                return Ok(ticket);
            }
        };
        let value = HeaderValue::from_str(&value);
        let mut value =
            value.map_err(|_| "the login has characters that are not allowed in a header")?;
        value.set_sensitive(true);
        request.headers_mut().insert(name, value);
        Ok(ticket)
    }

    /// The downstream did not know who we are. Whether it is worth trying again with something fresh.
    pub(crate) fn was_refused(&self, ticket: Ticket) -> bool {
        match (self, ticket.token) {
            (Self::OAuth(oauth), Some(token)) => oauth.was_refused(token),
            _ => false,
        }
    }

    pub(crate) fn has_worked(&self, ticket: Ticket) {
        if let (Self::OAuth(oauth), Some(token)) = (self, ticket.token) {
            oauth.has_worked(token);
        }
    }
}
