//! What the console asks of the process that serves it: who reads, and their sessions. Everything else it asks the API.

use std::sync::Arc;

use async_trait::async_trait;
use axum::http::{Extensions, HeaderMap};
use tollgate_contract::Role;

/// The process that serves the console: it knows tokens, sessions and connections.
#[async_trait]
pub trait Door: Send + Sync {
    /// Whether readers must sign in.
    fn asks_for_tokens(&self) -> bool;

    /// Who reads where nobody signs in; none if the request calls this machine by a name that is not its own.
    fn local_reader(&self, headers: &HeaderMap) -> Option<Reader>;

    /// Whether a browser sends the request for a page of another site.
    fn is_from_another_site(&self, headers: &HeaderMap) -> bool;

    /// Counts the request's connection as the reader's. False if there are too many.
    fn has_room_for(&self, reader: &Reader, request: &Extensions) -> bool;

    /// Begins a session for the owner of a token. None if the token is unknown; that is counted, and answered slowly.
    async fn sign_in(&self, token: &str, request: &Extensions) -> Result<Option<NewSession>, Away>;

    /// Whose session it is. None once it has ended.
    async fn reader(&self, secret: &str) -> Result<Option<Reader>, Away>;

    /// Ends a session everywhere.
    async fn sign_out(&self, secret: &str) -> Result<(), Away>;
}

/// The reader of a page. The console adds it to each request that it makes of the API, which acts in its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    /// As the audit log knows it.
    pub name: Arc<str>,
    /// The role of its token. None where no tokens are configured: then readers may do everything.
    pub role: Option<Role>,
}

/// A session that has begun.
#[derive(Debug)]
pub struct NewSession {
    /// What the browser shows from now on.
    pub secret: String,
    /// How long the session lasts.
    pub lasts_secs: i64,
}

/// Sessions cannot be looked up right now, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away(pub String);
