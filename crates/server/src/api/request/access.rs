//! Who may call what: the one table of all addresses. What is not in it is not served, so a new
//! address cannot be forgotten here.

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

use super::origin::{from_another_site, strange_host};
use crate::api::answer::codes::Code;
use crate::api::answer::error::{ApiError, internal};
use crate::door::auth::{Caller, Role, Tokens};
use crate::door::places::{Full, Seat};

/// What an address asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Not even a token.
    Nothing,
    /// A token with any role.
    AnyRole,
    Ingest,
    Read,
    Operate,
}

impl Needs {
    /// `operate` may do everything.
    pub fn roles(self) -> &'static [Role] {
        match self {
            Self::Nothing | Self::AnyRole => &Role::ALL,
            Self::Ingest => &[Role::Ingest, Role::Operate],
            Self::Read => &[Role::Read, Role::Operate],
            Self::Operate => &[Role::Operate],
        }
    }
}

use Needs::{AnyRole, Ingest, Nothing, Operate, Read};

/// Method, address as the router knows it, and what it needs.
pub const ROUTES: &[(&str, &str, Needs)] = &[
    ("GET", "/health/live", Nothing),
    ("GET", "/health/ready", Nothing),
    // The contract and its page are the same for everybody and tell nothing of this service.
    ("GET", "/openapi.json", Nothing),
    ("GET", "/docs", Nothing),
    ("GET", "/docs/", Nothing),
    ("GET", "/docs/{*rest}", Nothing),
    ("GET", "/metrics", Read),
    ("GET", "/q/metrics", Read),
    ("POST", "/payments", Ingest),
    ("GET", "/payments", Read),
    ("POST", "/payments/bulk", Ingest),
    ("GET", "/payments/bulk", Read),
    ("GET", "/payments/bulk/{batch}", AnyRole),
    ("GET", "/payments/bulk/{batch}/errors", AnyRole),
    ("POST", "/payments/check-status", Ingest),
    ("GET", "/payments/check-status", Read),
    ("GET", "/payments/check-status/{workflow_id}", AnyRole),
    (
        "GET",
        "/payments/check-status/{workflow_id}/gateways",
        AnyRole,
    ),
    ("GET", "/payments/{id}", AnyRole),
    ("POST", "/payments/{id}/cancel", Operate),
    ("POST", "/payments/{id}/release", Operate),
    ("POST", "/payments/{id}/reschedule", Operate),
    ("POST", "/payments/{id}/reopen", Operate),
    ("POST", "/customers", Ingest),
    ("GET", "/customers", Read),
    ("GET", "/customers/{id}", AnyRole),
    ("PUT", "/customers/{id}", Operate),
    ("POST", "/invoices", Ingest),
    ("GET", "/invoices", Read),
    ("GET", "/invoices/{id}", AnyRole),
    ("GET", "/invoices/{id}/occurrences", AnyRole),
    ("POST", "/invoices/{id}/cancel", Operate),
    ("POST", "/invoices/{id}/correct", Operate),
    ("POST", "/invoices/{id}/reschedule", Operate),
    ("POST", "/invoices/{id}/settle", Operate),
    ("GET", "/billing/schedules/global", Read),
    ("PUT", "/billing/schedules/global", Operate),
    ("DELETE", "/billing/schedules/global", Operate),
    ("GET", "/billing/schedules/customer/{id}", Read),
    ("PUT", "/billing/schedules/customer/{id}", Operate),
    ("DELETE", "/billing/schedules/customer/{id}", Operate),
    ("GET", "/billing/schedules/invoice/{id}", Read),
    ("PUT", "/billing/schedules/invoice/{id}", Operate),
    ("DELETE", "/billing/schedules/invoice/{id}", Operate),
    // Asks what would happen and changes nothing.
    ("POST", "/billing/schedules/preview", Read),
    ("GET", "/admin/rate-limit/config", Read),
    ("POST", "/admin/rate-limit/config", Operate),
    ("POST", "/admin/rate-limit/cache/flush", Operate),
    ("GET", "/admin/rate-limit/windows", Read),
    ("GET", "/admin/rate-limit/certificate", Read),
    // Asks what would happen and changes nothing.
    ("POST", "/admin/rate-limit/forecast", Read),
    ("GET", "/admin/now", Read),
    ("GET", "/admin/needs-you", Read),
    ("POST", "/admin/needs-you/{kind}/seen", Operate),
    ("GET", "/admin/held", Read),
    ("GET", "/admin/nodes", Read),
    ("POST", "/admin/lanes/{lane}/pause", Operate),
    ("POST", "/admin/lanes/{lane}/resume", Operate),
    ("POST", "/admin/lanes/{lane}/replan", Operate),
    ("POST", "/admin/lanes/{lane}/adjust", Operate),
    ("POST", "/admin/lanes/{lane}/reconcile", Operate),
    ("GET", "/admin/lanes/{lane}/history", Read),
    ("GET", "/admin/storms", Read),
    ("POST", "/admin/storms/{storm}/reopen", Operate),
    ("POST", "/admin/banks/{bank}/ask", Operate),
    ("GET", "/admin/calendars", Read),
    ("GET", "/admin/calendars/{name}", Read),
    ("PUT", "/admin/calendars/{name}", Operate),
    ("PUT", "/admin/calendars/{name}/holidays", Operate),
    ("GET", "/admin/calendars/{name}/history", Read),
    ("GET", "/admin/events", Read),
    ("POST", "/admin/events/off", Operate),
    ("GET", "/admin/feeds", Read),
    ("POST", "/admin/feeds/{feed}/pause", Operate),
    ("POST", "/admin/feeds/{feed}/resume", Operate),
    ("POST", "/admin/feeds/{feed}/seek", Operate),
    ("GET", "/admin/in-doubt", Read),
    ("POST", "/admin/in-doubt/ask", Operate),
    ("GET", "/admin/in-doubt/{item_type}/{id}", Read),
    ("POST", "/admin/in-doubt/{item_type}/{id}/resolve", Operate),
    ("GET", "/admin/totals", Read),
    ("GET", "/admin/item-types", Read),
    ("GET", "/admin/item-types/{item_type}", Read),
    ("PUT", "/admin/item-types/{item_type}", Operate),
    ("GET", "/admin/item-types/{item_type}/history", Read),
    ("GET", "/admin/item-types/{item_type}/retention", Read),
    ("PUT", "/admin/item-types/{item_type}/retention", Operate),
    ("GET", "/admin/dead-letters", Read),
    (
        "POST",
        "/admin/dead-letters/{item_type}/{id}/replay",
        Operate,
    ),
    ("GET", "/admin/archive", Read),
    ("GET", "/admin/archive/status", Read),
    ("GET", "/admin/archive/{day}", Read),
    ("GET", "/admin/archive/{day}/items", Read),
    ("GET", "/admin/archive/{day}/audit", Read),
    ("POST", "/admin/archive/run", Operate),
    ("POST", "/admin/archive/{day}/verify", Operate),
    ("POST", "/admin/archive/{day}/export", Operate),
    ("POST", "/admin/archive/{day}/restore", Operate),
    ("GET", "/admin/audit", Read),
    // A preview fixes what it finds.
    ("POST", "/admin/jobs", Operate),
    ("GET", "/admin/jobs", Read),
    ("GET", "/admin/jobs/{job}", Read),
    ("GET", "/admin/jobs/{job}/items", Read),
    ("POST", "/admin/jobs/{job}/stop", Operate),
    ("POST", "/admin/erasures", Operate),
    ("GET", "/admin/erasures/{erasure}", Operate),
    ("GET", "/admin/rules", Read),
    ("POST", "/admin/rules/reload", Operate),
    // Asks what would happen and changes nothing.
    ("POST", "/admin/rules/dry-run", Read),
];

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

/// A caller whom the console has asked for already; it cannot come from outside.
#[derive(Clone)]
pub(crate) struct SessionCaller(pub(crate) Caller);

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
    let caller = match request.extensions().get::<SessionCaller>() {
        Some(SessionCaller(caller)) => caller.clone(),
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
                tracing::warn!(actor, %method, path, "refused: the role is not enough");
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
                "token required; send the header Authorization: Bearer TOKEN once",
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
                internal(&format!("{path} is not in the table of api/request/access.rs")).into_response()
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
        caller.ok_or_else(|| {
            internal("a request came past the table of api/request/access.rs").into_response()
        })
    }
}

#[cfg(test)]
mod tests;
