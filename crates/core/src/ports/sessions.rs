//! Sessions of the console: who has signed in, and until when. Only hashes are kept: reading them lets nobody in.

use async_trait::async_trait;
use jiff::SignedDuration;

use super::StoreResult;

/// One token has at most this many sessions; the oldest makes room for the next.
pub const MOST_SESSIONS: u32 = 32;

#[async_trait]
pub trait Sessions: Send + Sync {
    /// Begins a session. Those that are over are forgotten by the way.
    async fn begin_session(&self, session: NewSession) -> StoreResult<()>;

    /// The hash of the token that it was begun with, while it lasts, for every node.
    async fn session(&self, secret_sha256: &str) -> StoreResult<Option<String>>;

    /// Ends it at once, for every node; one that is over or was never begun is none.
    async fn end_session(&self, secret_sha256: &str) -> StoreResult<()>;
}

#[derive(Debug, Clone)]
pub struct NewSession {
    /// The hash of what its browser shows.
    pub secret_sha256: String,
    pub token_sha256: String,
    /// From now, by the shared clock.
    pub lasts: SignedDuration,
}
