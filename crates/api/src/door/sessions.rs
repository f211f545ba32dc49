//! Who has signed in to the console. A session lives in the store: every node knows it, signing out ends it
//! everywhere, and so does the end of its time or of its token. A browser has a secret that means nothing elsewhere.

use std::sync::Arc;

use tollgate_config::auth::hash;
use tollgate_core::SignedDuration;
use tollgate_core::ports::{NewSession, Store, StoreResult};

use crate::door::auth::{Caller, Tokens};

/// A shift, and the hours around it.
pub(crate) const LASTS: SignedDuration = SignedDuration::from_hours(12);

#[derive(Clone)]
pub(crate) struct Sessions {
    store: Arc<dyn Store>,
    tokens: Arc<Tokens>,
}

/// What a browser shows.
pub(crate) type Secret = String;

impl Sessions {
    pub(crate) fn new(store: Arc<dyn Store>, tokens: Arc<Tokens>) -> Self {
        Self { store, tokens }
    }

    /// Begins one for the owner of a token that is known.
    pub(crate) async fn begin(&self, token: &str) -> StoreResult<Secret> {
        let secret = hex::encode(rand::random::<[u8; 32]>());
        let session = NewSession {
            secret_sha256: known_as(&secret),
            token_sha256: hex::encode(hash(token.as_bytes())),
            lasts: LASTS,
        };
        self.store.begin_session(session).await?;
        Ok(secret)
    }

    /// Whose it is, while it lasts and its token is configured.
    pub(crate) async fn caller(&self, secret: &str) -> StoreResult<Option<Caller>> {
        let token = self.store.session(&known_as(secret)).await?;
        Ok(token.and_then(|hash| self.tokens.owner(&hash)))
    }

    pub(crate) async fn end(&self, secret: &str) -> StoreResult<()> {
        self.store.end_session(&known_as(secret)).await
    }
}

fn known_as(secret: &str) -> String {
    hex::encode(hash(secret.as_bytes()))
}
