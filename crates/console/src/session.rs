//! Who reads, and whether a form is ours. A browser shows the secret of its session in a cookie that no script and
//! no other site can use; whose session it is, and whether it still is one, is looked up with every request.

use std::sync::Arc;

use axum::Form;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tollgate_contract::Needs;

use super::Console;
use super::call::{Problem, query};
use super::door::{Away, Reader};
use super::needs_you::Frame;
use super::shell::{ErrorPage, SignInPage};

pub(super) const SIGN_IN: &str = "/console/sign-in";
/// The field of a form that proves that it is ours.
pub(super) const PROOF: &str = "csrf";
const COOKIE: &str = "tollgate_session";
/// By TLS: browsers take a cookie of this name from this very host only, and never without TLS.
const COOKIE_BY_TLS: &str = "__Host-tollgate_session";

/// The reader of a page.
#[derive(Debug, Clone)]
pub(super) struct Session {
    /// What the browser shows; none where nobody signs in.
    secret: Option<String>,
    /// As whom the API is called.
    pub(super) reader: Reader,
    /// Every form of this reader carries it.
    pub(super) csrf: String,
    /// What needs a person, for the page that this reader asks for.
    pub(super) frame: Frame,
}

impl Session {
    pub(super) fn name(&self) -> &str {
        &self.reader.name
    }

    pub(super) fn may(&self, needs: Needs) -> bool {
        let role = self.reader.role;
        role.is_none_or(|role| needs.roles().contains(&role))
    }

    pub(super) fn has_token(&self) -> bool {
        self.secret.is_some()
    }

    /// Whether a form carries what ours do.
    pub(super) fn is_proof(&self, given: &[u8]) -> bool {
        same(given, &self.csrf)
    }
}

/// Cannot be guessed, and is another one after each start.
pub(super) fn secret() -> Arc<str> {
    format!("{:032x}", rand::random::<u128>()).into()
}

impl Console {
    async fn session(&self, request: Shown<'_>) -> Result<Session, Refusal> {
        let session = self.known(request.headers).await?;
        let has_room = self.door.has_room_for(&session.reader, request.extensions);
        has_room.then_some(session).ok_or(Refusal::Full)
    }

    async fn known(&self, headers: &HeaderMap) -> Result<Session, Refusal> {
        if !self.door.asks_for_tokens() {
            let local = self.door.local_reader(headers);
            let session = local.map(|reader| self.session_of(None, reader));
            return session.ok_or(Refusal::Stranger);
        }
        let Some(secret) = cookie(headers, cookie_name(self.by_tls)) else {
            return Err(Refusal::SignIn);
        };
        match self.door.reader(&secret).await {
            Ok(Some(reader)) => Ok(self.session_of(Some(secret), reader)),
            Ok(None) => Err(Refusal::SignIn),
            Err(away) => Err(Refusal::Away(away)),
        }
    }

    /// Whether a session that was found before has ended since.
    pub(super) async fn is_over(&self, session: &Session) -> bool {
        match &session.secret {
            None => false,
            // A store that is away says nothing about anybody.
            Some(secret) => matches!(self.door.reader(secret).await, Ok(None)),
        }
    }

    fn session_of(&self, secret: Option<String>, reader: Reader) -> Session {
        let seed = secret.as_deref().unwrap_or(&self.secret);
        let proof = Sha256::digest(format!("a form of the console for {seed}").as_bytes());
        Session {
            secret,
            reader,
            csrf: hex::encode(proof),
            frame: Frame::default(),
        }
    }
}

/// What of a request tells whose it is.
struct Shown<'a> {
    headers: &'a HeaderMap,
    extensions: &'a Extensions,
}

fn cookie_name(by_tls: bool) -> &'static str {
    if by_tls { COOKIE_BY_TLS } else { COOKIE }
}

fn cookie_text(by_tls: bool, secret: &str, secs: i64) -> String {
    let (name, secure) = (cookie_name(by_tls), if by_tls { "; Secure" } else { "" });
    format!("{name}={secret}; Path=/; HttpOnly; SameSite=Strict; Max-Age={secs}{secure}")
}

fn cookie(headers: &HeaderMap, wanted: &str) -> Option<String> {
    let all = headers.get_all(header::COOKIE).iter();
    let pairs = all.filter_map(|value| value.to_str().ok());
    let mut pairs = pairs.flat_map(|value| value.split(';'));
    pairs.find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == wanted).then(|| value.to_owned())
    })
}

/// Why there is no session.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// Not a name of this machine, where there are no tokens.
    Stranger,
    SignIn,
    /// There are too many callers at once.
    Full,
    Away(Away),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::Stranger => StatusCode::FORBIDDEN.into_response(),
            Self::SignIn => Redirect::to(SIGN_IN).into_response(),
            Self::Full => {
                let error = "too many concurrent requests; try again";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, error).into_response()
            }
            Self::Away(away) => Problem::store_away(&away).into_response(),
        }
    }
}

impl FromRequestParts<Console> for Session {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Response> {
        let shown = Shown {
            headers: &parts.headers,
            extensions: &parts.extensions,
        };
        let known = console.session(shown).await;
        let mut session = known.map_err(|refusal| {
            let asked = parts.uri.path_and_query();
            match asked.filter(|_| refusal == Refusal::SignIn) {
                // A page that was asked for comes after signing in; an act does not.
                Some(asked) if parts.method == Method::GET => {
                    let next = query(&[("next", asked.as_str())]);
                    Redirect::to(&format!("{SIGN_IN}{next}")).into_response()
                }
                _ => refusal.into_response(),
            }
        })?;
        session.frame = console.frame(&session).await;
        Ok(session)
    }
}

/// What is wrong is told on a page like the others, with the menu and the banner, to a reader who is known.
pub(super) async fn with_menu(
    State(console): State<Console>,
    request: Request,
    next: middleware::Next,
) -> Response {
    let headers = request.headers().clone();
    let mut response = next.run(request).await;
    let Some(problem) = response.extensions_mut().remove::<Problem>() else {
        return response;
    };
    let Ok(mut session) = console.known(&headers).await else {
        return response;
    };
    session.frame = console.frame(&session).await;
    ErrorPage::of(Some(&session), problem)
}

/// A form that was filled in on one of our own pages.
pub(super) struct Act<T> {
    pub(super) session: Session,
    pub(super) form: T,
}

#[derive(Deserialize)]
struct Proof {
    #[serde(default)]
    csrf: String,
}

impl<T: DeserializeOwned> FromRequest<Console> for Act<T> {
    type Rejection = Response;

    async fn from_request(request: Request, console: &Console) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        let session = Session::from_request_parts(&mut parts, console).await?;
        if console.door.is_from_another_site(&parts.headers) {
            return Err(Problem::not_ours().into_response());
        }
        let request = Request::from_parts(parts, body);
        let bytes = Bytes::from_request(request, console).await;
        let bytes = bytes.map_err(IntoResponse::into_response)?;
        let proof: Proof = parse(&bytes).map_err(IntoResponse::into_response)?;
        if !session.is_proof(proof.csrf.as_bytes()) {
            return Err(Problem::not_ours().into_response());
        }
        let form = parse(&bytes).map_err(IntoResponse::into_response)?;
        Ok(Self { session, form })
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_urlencoded::from_bytes(bytes).map_err(|error| {
        let error = format!("the form cannot be read: {error}");
        Problem::new(StatusCode::BAD_REQUEST, error)
    })
}

/// Takes as long for a wrong proof as for the right one.
fn same(given: &[u8], proof: &str) -> bool {
    given.ct_eq(proof.as_bytes()).into()
}

impl Problem {
    pub(super) fn not_ours() -> Self {
        let error =
            "this form has expired or is from another site; reload the page and submit it again";
        Self::new(StatusCode::FORBIDDEN, error)
    }
}

#[derive(Deserialize)]
pub(super) struct Next {
    #[serde(default)]
    next: String,
    #[serde(default)]
    out: Option<String>,
}

pub(super) async fn ask(State(console): State<Console>, Query(next): Query<Next>) -> Response {
    if !console.door.asks_for_tokens() {
        return Redirect::to("/").into_response();
    }
    let said = match (&next.out, next.next.is_empty()) {
        (Some(_), _) => "You have signed out.",
        (None, true) => "",
        (None, false) => "Sign in to continue. A session ends after twelve hours.",
    };
    SignInPage::new(said, &next.next).into_response()
}

#[derive(Deserialize)]
pub(super) struct SignIn {
    token: String,
    #[serde(default)]
    next: String,
}

pub(super) async fn sign_in(
    State(console): State<Console>,
    request: Extensions,
    headers: HeaderMap,
    Form(form): Form<SignIn>,
) -> Response {
    if console.door.is_from_another_site(&headers) {
        return Problem::not_ours().into_response();
    }
    match console.door.sign_in(form.token.trim(), &request).await {
        Ok(Some(begun)) => {
            let next = page_of_ours(&form.next);
            with_cookie(&console, &begun.secret, begun.lasts_secs, next)
        }
        Ok(None) => {
            let page = SignInPage::new("Unknown token.", &form.next);
            (StatusCode::UNAUTHORIZED, page).into_response()
        }
        Err(away) => Problem::store_away(&away).into_response(),
    }
}

/// The address, if it is one of a page here; else the first page. Browsers read `\` as `/` and take
/// tabs and line ends out.
fn page_of_ours(next: &str) -> &str {
    let plain = next.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    if plain && next.starts_with('/') && !next.starts_with("//") {
        next
    } else {
        "/"
    }
}

pub(super) async fn sign_out(State(console): State<Console>, act: Act<Nothing>) -> Response {
    if let Some(secret) = &act.session.secret
        && let Err(away) = console.door.sign_out(secret).await
    {
        return Problem::store_away(&away).into_response();
    }
    with_cookie(&console, "", 0, &format!("{SIGN_IN}?out=1"))
}

#[derive(Deserialize)]
pub(super) struct Nothing {}

fn with_cookie(console: &Console, secret: &str, secs: i64, next: &str) -> Response {
    let cookie = cookie_text(console.by_tls, secret, secs);
    let mut response = Redirect::to(next).into_response();
    if let Ok(mut cookie) = HeaderValue::from_str(&cookie) {
        cookie.set_sensitive(true);
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            let name = axum::http::HeaderName::from_static(name);
            (name, HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn after_signing_in_nobody_is_sent_elsewhere() {
        assert_eq!(
            page_of_ours("/console/audit?actor=a"),
            "/console/audit?actor=a"
        );
        for elsewhere in ["", "x", "//x", "/\\x", "/\t/x", "/a\nb", "https://x"] {
            assert_eq!(page_of_ours(elsewhere), "/", "{elsewhere:?}");
        }
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let found = |text: &str, name| cookie(&headers(&[("cookie", text)]), name);
        let two = "a=1; tollgate_session=tg_x; __Host-tollgate_session=tg_y";
        assert_eq!(found(two, COOKIE).as_deref(), Some("tg_x"));
        assert_eq!(found(two, COOKIE_BY_TLS).as_deref(), Some("tg_y"));
        assert_eq!(found("tollgate_sessions=1", COOKIE), None);
        assert_eq!(found("tollgate_session=1", COOKIE_BY_TLS), None);
    }

    #[test]
    fn by_tls_the_cookie_is_of_this_host_alone_and_never_travels_without() {
        assert_eq!(
            cookie_text(true, "x", 60),
            "__Host-tollgate_session=x; Path=/; HttpOnly; SameSite=Strict; Max-Age=60; Secure"
        );
        assert_eq!(
            cookie_text(false, "x", 60),
            "tollgate_session=x; Path=/; HttpOnly; SameSite=Strict; Max-Age=60"
        );
    }
}
