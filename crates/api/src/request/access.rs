//! Who may call what, by the contract's table of all addresses (`ROUTES`). What is not in it is not served, so a new
//! address cannot be forgotten there.

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use tollgate_console::Reader;
use tollgate_contract::Needs::{self, AnyRole, Nothing};
use tollgate_contract::ROUTES;

use super::origin::{from_another_site, strange_host};
use crate::answer::codes::Code;
use crate::answer::error::{ApiError, internal};
use crate::door::auth::{Caller, Tokens};
use crate::door::places::{Full, Seat};

/// Lets a request in with its [`Caller`], or says why not.
pub(crate) async fn admit(
    State(tokens): State<Arc<Tokens>>,
    mut request: Request,
    next: Next,
) -> Response {
    match judge(&tokens, &request).and_then(|(caller, needs)| seated(caller, needs, &request)) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) => {
            refusal.note(&request);
            if refusal == Refusal::WrongToken {
                let seat = request.extensions().get::<Seat>();
                tokens.wrong.note(seat.map(Seat::from)).await;
            }
            refusal.into_response()
        }
    }
}

/// Who has shown a token has one of the callers' places.
fn seated(caller: Caller, needs: Needs, request: &Request) -> Result<Caller, Refusal> {
    match request.extensions().get::<Seat>() {
        Some(seat) if needs != Nothing => seat.belongs_to(&caller).map_err(|Full| Refusal::Full)?,
        _ => {}
    }
    Ok(caller)
}

fn judge(tokens: &Tokens, request: &Request) -> Result<(Caller, Needs), Refusal> {
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map(MatchedPath::as_str);
    let needs = path.map(|path| needs(request.method(), path));
    if let Some(Ok(Nothing)) = needs {
        return Ok((Caller::Local, Nothing));
    }
    // Whoever may not come in does not learn what is here.
    let caller = match request.extensions().get::<Reader>() {
        // The console has found out who reads; what it adds to a request cannot come from outside.
        Some(reader) => Caller::from(reader),
        None => authenticate(tokens, request.method(), request.headers())?,
    };
    match needs {
        // The router says that there is nothing.
        None => Ok((caller, AnyRole)),
        Some(needs) => {
            let needs = needs?;
            Ok((permit(caller, needs)?, needs))
        }
    }
}

fn needs(method: &Method, path: &str) -> Result<Needs, Refusal> {
    let method = match *method {
        Method::HEAD => Method::GET.as_str(),
        _ => method.as_str(),
    };
    let here = || ROUTES.iter().filter(|(_, listed, _)| *listed == path);
    if let Some((_, _, needs)) = here().find(|(listed, _, _)| *listed == method) {
        return Ok(*needs);
    }
    let methods: Vec<_> = here().map(|(listed, _, _)| *listed).collect();
    Err(match methods[..] {
        [] => Refusal::NotListed(path.to_owned()),
        _ => Refusal::Method(methods.join(", ")),
    })
}

fn authenticate(tokens: &Tokens, method: &Method, headers: &HeaderMap) -> Result<Caller, Refusal> {
    if !tokens.are_asked_for() {
        return match strange_host(headers) {
            Some(host) => Err(Refusal::Host(host)),
            None if !method.is_safe() && from_another_site(headers) => Err(Refusal::AnotherSite),
            None => Ok(Caller::Local),
        };
    }
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else {
        return Err(Refusal::NoToken);
    };
    let token = bearer(value).ok_or(Refusal::NoToken)?;
    tokens.caller(token).ok_or(Refusal::WrongToken)
}

/// The scheme's name may be written in any case.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked("Bearer ".len())?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !token.is_empty()).then_some(token)
}

fn permit(caller: Caller, needs: Needs) -> Result<Caller, Refusal> {
    match &caller {
        Caller::Local => Ok(caller),
        Caller::Token { role, .. } if needs.roles().contains(role) => Ok(caller),
        Caller::Token { .. } => Err(Refusal::Role(caller, needs)),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    NoToken,
    WrongToken,
    Host(String),
    /// A browser sends it for a page of another site.
    AnotherSite,
    Role(Caller, Needs),
    /// There are too many callers at once.
    Full,
    /// With the methods that the address knows.
    Method(String),
    /// The router has an address that the table has not.
    NotListed(String),
}

impl Refusal {
    /// Strangers are only counted: they may be many. Whoever has a token is named.
    fn note(&self, request: &Request) {
        let status = match self {
            Self::NoToken | Self::WrongToken => "401",
            Self::Host(_) | Self::AnotherSite => "403",
            Self::Role(caller, _) => {
                let (actor, path) = (caller.name(), request.uri().path());
                let method = request.method();
                tracing::warn!(actor, %method, path, "refused: insufficient role");
                "403"
            }
            Self::Full | Self::Method(_) | Self::NotListed(_) => return,
        };
        metrics::counter!("tollgate_api_refused_total", "status" => status).increment(1);
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Self::NoToken => unauthorized(
                Code::TokenRequired,
                "token required; send exactly one header Authorization: Bearer TOKEN",
                "Bearer realm=\"tollgate\"",
            ),
            Self::WrongToken => unauthorized(
                Code::TokenUnknown,
                "unknown token",
                "Bearer realm=\"tollgate\", error=\"invalid_token\"",
            ),
            Self::Host(host) => forbidden(Code::HostNotAllowed, format!(
                "without tokens only requests to this machine are served, and {host:?} is not one of its names; use http://127.0.0.1 or http://localhost, or configure auth.tokens"
            )),
            Self::AnotherSite => forbidden(
                Code::CrossSite,
                "cross-site request refused: without tokens any web page could send it; configure auth.tokens, or do not send the request from a browser"
                    .to_owned(),
            ),
            Self::Role(caller, needs) => forbidden(Code::RoleInsufficient, lacking(&caller, needs)),
            Self::Full => {
                let error = "too many concurrent requests; send the same request again, an id is never paid twice";
                let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error);
                let mut response = error.coded(Code::Overloaded).into_response();
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
                response
            }
            Self::Method(methods) => {
                let mut response = ApiError::method_not_allowed(Some(&methods)).into_response();
                if let Ok(methods) = HeaderValue::from_str(&methods) {
                    response.headers_mut().insert(header::ALLOW, methods);
                }
                response
            }
            Self::NotListed(path) => {
                internal(&format!("{path} is not in the table of contract/src/routes.rs")).into_response()
            }
        }
    }
}

fn lacking(caller: &Caller, needs: Needs) -> String {
    let roles: Vec<_> = needs.roles().iter().map(|role| role.as_str()).collect();
    let roles = roles.join(" or ");
    let name = caller.name();
    format!("this request requires a token with the role {roles}; \"{name}\" has another role")
}

fn unauthorized(code: Code, error: &str, challenge: &'static str) -> Response {
    let error = ApiError::new(StatusCode::UNAUTHORIZED, error);
    let mut response = error.coded(code).into_response();
    let challenge = HeaderValue::from_static(challenge);
    let headers = response.headers_mut();
    headers.insert(header::WWW_AUTHENTICATE, challenge);
    response
}

fn forbidden(code: Code, error: String) -> Response {
    let error = ApiError::new(StatusCode::FORBIDDEN, error);
    error.coded(code).into_response()
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| internal("a request came past api/request/access.rs").into_response())
    }
}

#[cfg(test)]
mod tests;
