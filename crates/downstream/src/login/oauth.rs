//! OAuth 2.0 client credentials: a token that is fetched once for all, renewed before it ends, and renewed once more
//! when the downstream refuses it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::HeaderValue;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http_body_util::Full;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::time::Instant;

use crate::access::Access;
use crate::connection::{OutRequest, Remote};
use crate::judge::Exchange;
use crate::pool::Pool;
use crate::secret_source::{Rotating, SecretSource};
use crate::url::Base;

/// For one whole exchange with the token endpoint.
const FETCH_WITHIN: Duration = Duration::from_secs(10);
/// A token is renewed this long before its end, or after four fifths of its life if that is sooner.
const RENEW_BEFORE: Duration = Duration::from_mins(1);
/// How long an endpoint that has failed is left alone, doubling with each failure up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub struct OAuthOptions {
    pub token_url: String,
    pub client_id: SecretSource,
    pub client_secret: SecretSource,
    pub scope: Option<String>,
    /// Sends id and secret in the form instead of as a basic login.
    pub in_body: bool,
    /// How long a token lives whose answer does not say so.
    pub expires_in: Option<Duration>,
    pub root_certificates: Option<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct OAuth {
    pool: Arc<Pool>,
    path: String,
    host_header: HeaderValue,
    client_id: Rotating,
    client_secret: Rotating,
    scope: Option<String>,
    in_body: bool,
    expires_in: Option<Duration>,
    state: Mutex<State>,
    /// Held by the one who fetches.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    token: Option<Token>,
    /// How many were fetched.
    fetched: u64,
    /// The last one was refused: the next is the last that is tried.
    after_refusal: bool,
    failed: Option<Failure>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("fetched", &self.fetched)
            .finish_non_exhaustive()
    }
}

struct Token {
    text: String,
    number: u64,
    renew_at: Instant,
    ends_at: Instant,
    after_refusal: bool,
    has_worked: bool,
}

#[derive(Clone)]
struct Failure {
    until: Instant,
    pause: Duration,
    why: String,
}

#[derive(Deserialize)]
struct Answered {
    access_token: String,
    expires_in: Option<u64>,
}

impl OAuth {
    pub(super) fn new(options: OAuthOptions) -> Result<Self, String> {
        let base =
            Base::parse(&options.token_url).map_err(|why| format!("login.token_url: {why}"))?;
        let access = Access::trusting(options.root_certificates.filter(|_| base.encrypted));
        let remote = Remote::at(&base, &access).map_err(|why| format!("login.token_url: {why}"))?;
        let read = |what: &str, source| {
            Rotating::read(source).map_err(|why| format!("login.{what}: {why}"))
        };
        Ok(Self {
            pool: Arc::new(Pool::new(remote, 2)),
            path: base.whole_path,
            host_header: base.host_header,
            client_id: read("client_id", options.client_id)?,
            client_secret: read("client_secret", options.client_secret)?,
            scope: options.scope,
            in_body: options.in_body,
            expires_in: options.expires_in,
            state: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
        })
    }

    /// A token that is valid now, and its number. One that ends soon is renewed meanwhile.
    pub(crate) async fn token(self: &Arc<Self>) -> Result<(String, u64), String> {
        match self.held() {
            Some((token, number, true)) => {
                self.renew_in_the_background();
                return Ok((token, number));
            }
            Some((token, number, false)) => return Ok((token, number)),
            None => {}
        }
        let _alone = self.fetching.lock().await;
        if let Some((token, number, _)) = self.held() {
            return Ok((token, number));
        }
        self.fetch().await?;
        let held = self.held();
        let held = held.ok_or("the token endpoint returns tokens that have already expired")?;
        Ok((held.0, held.1))
    }

    /// With whether it should be renewed.
    fn held(&self) -> Option<(String, u64, bool)> {
        let state = self.state();
        let now = Instant::now();
        let token = state.token.as_ref().filter(|token| now < token.ends_at)?;
        Some((token.text.clone(), token.number, now >= token.renew_at))
    }

    fn renew_in_the_background(self: &Arc<Self>) {
        let oauth = Arc::clone(self);
        tokio::spawn(async move {
            if let Ok(_alone) = oauth.fetching.try_lock() {
                // The one that is held is still good; what is wrong is said when it is not.
                let _ = oauth.fetch().await;
            }
        });
    }

    /// Whether another token is worth trying: not if this one is the answer to a refusal, and has never worked.
    pub(super) fn was_refused(&self, number: u64) -> bool {
        let mut state = self.state();
        match &state.token {
            Some(token) if token.number == number => {
                let last_try = token.after_refusal && !token.has_worked;
                state.after_refusal = true;
                state.token = None;
                !last_try
            }
            // It was replaced meanwhile.
            _ => true,
        }
    }

    pub(super) fn has_worked(&self, number: u64) {
        if let Some(token) = &mut self.state().token
            && token.number == number
        {
            token.has_worked = true;
        }
    }

    async fn fetch(&self) -> Result<(), String> {
        let now = Instant::now();
        if let Some(failed) = &self.state().failed
            && now < failed.until
        {
            return Err(failed.why.clone());
        }
        match self.ask().await {
            Ok((text, lives)) => {
                let early = RENEW_BEFORE.min(lives / 5);
                let mut state = self.state();
                state.fetched += 1;
                state.failed = None;
                state.token = Some(Token {
                    text,
                    number: state.fetched,
                    renew_at: now + lives.saturating_sub(early),
                    ends_at: now + lives,
                    after_refusal: std::mem::take(&mut state.after_refusal),
                    has_worked: false,
                });
                Ok(())
            }
            Err(why) => {
                let why = format!("no token: {why}");
                let mut state = self.state();
                let before = state.failed.as_ref().map(|failed| failed.pause * 2);
                let pause = before.unwrap_or(FIRST_PAUSE).min(LONGEST_PAUSE);
                state.failed = Some(Failure {
                    until: Instant::now() + pause,
                    pause,
                    why: why.clone(),
                });
                Err(why)
            }
        }
    }

    /// The token, and how long it lives.
    #[tracing::instrument(level = "debug", name = "token", skip_all)]
    async fn ask(&self) -> Result<(String, Duration), String> {
        let lease = self.pool.lease(FETCH_WITHIN).await;
        let lease = lease.map_err(|none| format!("the token endpoint is unavailable: {none}"))?;
        let use_by = Instant::now() + FETCH_WITHIN;
        let exchange = lease.exchange(self.request()?, use_by, FETCH_WITHIN).await;
        let answer = match exchange.map_err(|missed| missed.to_string())? {
            Exchange::Answered(answer) => answer,
            Exchange::NotSent(why) | Exchange::Lost(why) => {
                return Err(format!("the token endpoint is unavailable: {why}"));
            }
        };
        match answer.status {
            200 | 201 => {}
            status @ (400 | 401 | 403) => {
                return Err(format!(
                    "the token endpoint answered {status}: check client_id, client_secret and scope"
                ));
            }
            // It is not followed: the secret would go to a place that nobody has configured.
            status @ 300..=399 => {
                return Err(format!(
                    "the token endpoint answered {status}, a redirect; set login.token_url to the address that it redirects to"
                ));
            }
            status => return Err(format!("the token endpoint answered {status}")),
        }
        let said: Answered = serde_json::from_slice(&answer.body)
            .map_err(|_| "the token endpoint's answer has no access_token in JSON")?;
        let lives = said.expires_in.map(Duration::from_secs).or(self.expires_in);
        let lives = lives.ok_or(
            "the token endpoint's answer has no expires_in; set the lifetime of tokens in login.expires_in_secs",
        )?;
        Ok((said.access_token, lives))
    }

    fn request(&self) -> Result<OutRequest, String> {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let (id, secret) = (self.client_id.value(), self.client_secret.value());
        let mut form = "grant_type=client_credentials".to_owned();
        if let Some(scope) = &self.scope {
            form += "&scope=";
            form += &encoded(scope);
        }
        let mut builder = http::Request::post(&self.path)
            .header(HOST, &self.host_header)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if self.in_body {
            let (id, secret) = (encoded(&id), encoded(&secret));
            form = format!("{form}&client_id={id}&client_secret={secret}");
        } else {
            let both = STANDARD.encode(format!("{id}:{secret}"));
            builder = builder.header(AUTHORIZATION, format!("Basic {both}"));
        }
        builder.body(Full::new(Bytes::from(form))).map_err(|_| {
            "client_id or client_secret has characters that are not allowed in a header".into()
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
