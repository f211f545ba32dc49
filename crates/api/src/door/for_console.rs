//! What the console asks of this process: who reads, by the tokens and sessions that it knows.

use std::sync::Arc;

use async_trait::async_trait;
use axum::http::{Extensions, HeaderMap};
use tollgate_console::{Away, Door, NewSession, Reader};
use tollgate_core::ports::StoreError;

use super::auth::{Caller, Tokens};
use super::places::Seat;
use super::sessions::{LASTS, Sessions};
use crate::{from_another_site, strange_host};

/// The longest token that is tried.
const MAX_TOKEN_BYTES: usize = 512;

pub(super) struct ForConsole {
    pub(super) tokens: Arc<Tokens>,
    pub(super) sessions: Sessions,
}

impl ForConsole {
    fn knows(&self, token: &str) -> bool {
        let fits = token.len() <= MAX_TOKEN_BYTES && token.bytes().all(|b| b.is_ascii_graphic());
        fits && self.tokens.caller(token.as_bytes()).is_some()
    }
}

#[async_trait]
impl Door for ForConsole {
    fn asks_for_tokens(&self) -> bool {
        self.tokens.are_asked_for()
    }

    fn local_reader(&self, headers: &HeaderMap) -> Option<Reader> {
        let is_here = strange_host(headers).is_none();
        is_here.then(|| Caller::Local.into())
    }

    fn is_from_another_site(&self, headers: &HeaderMap) -> bool {
        from_another_site(headers)
    }

    fn has_room_for(&self, reader: &Reader, request: &Extensions) -> bool {
        let seat = request.get::<Seat>();
        seat.is_none_or(|seat| seat.belongs_to(&Caller::from(reader)).is_ok())
    }

    async fn sign_in(&self, token: &str, request: &Extensions) -> Result<Option<NewSession>, Away> {
        if !self.knows(token) {
            metrics::counter!("tollgate_api_refused_total", "status" => "401").increment(1);
            let seat = request.get::<Seat>();
            self.tokens.wrong.note(seat.map(Seat::from)).await;
            return Ok(None);
        }
        let secret = self.sessions.begin(token).await;
        let secret = secret.map_err(|error| away(&error))?;
        let lasts_secs = LASTS.as_secs();
        Ok(Some(NewSession { secret, lasts_secs }))
    }

    async fn reader(&self, secret: &str) -> Result<Option<Reader>, Away> {
        let caller = self.sessions.caller(secret).await;
        let caller = caller.map_err(|error| away(&error))?;
        Ok(caller.map(Reader::from))
    }

    async fn sign_out(&self, secret: &str) -> Result<(), Away> {
        let ended = self.sessions.end(secret).await;
        ended.map_err(|error| away(&error))
    }
}

fn away(error: &StoreError) -> Away {
    Away(error.to_string())
}
