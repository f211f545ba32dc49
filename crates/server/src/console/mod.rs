//! The operator's console: pages for people, drawn by the server. It knows nothing but the API: each page
//! asks it within this process, with its reader's own token, so it can show and do what the reader may
//! and nothing else.

mod accounts;
mod call;
mod chart;
mod doubt;
mod imports;
mod in_doubt;
mod invoices;
mod lane;
mod live;
mod now;
mod payments;
mod schedules;
mod session;
mod shell;
mod status_checks;
mod worklists;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use tokio::sync::watch;

use crate::api::Bounds;
use crate::auth::Tokens;
use crate::sessions::Sessions;
use call::Problem;

/// What pages work with.
#[derive(Clone)]
pub(crate) struct Console {
    api: Router,
    tokens: Arc<Tokens>,
    sessions: Sessions,
    /// Proves that a form is ours where there are no tokens: new with every start.
    secret: Arc<str>,
    bounds: Bounds,
    live: Arc<live::Live>,
    /// True once the service is about to stop: live pages must not keep it.
    closing: watch::Receiver<bool>,
}

impl Console {
    pub(crate) fn new(
        api: Router,
        tokens: Arc<Tokens>,
        sessions: Sessions,
        bounds: Bounds,
        closing: watch::Receiver<bool>,
    ) -> Self {
        Self {
            api,
            tokens,
            sessions,
            secret: session::secret(),
            bounds,
            live: Arc::default(),
            closing,
        }
    }

    /// The API as it was, and the pages beside it, bounded in the same way.
    pub(crate) fn beside_the_api(self) -> Router {
        // A file may be of any size; everything else is a form.
        let upload = post(imports::upload).layer(DefaultBodyLimit::disable());
        let pages = Router::new()
            .route("/", get(now::page))
            .route("/console/live", get(live::stream))
            .route("/console/style.css", get(style))
            .route("/console/script.js", get(script))
            .route("/console/icon.svg", get(icon))
            .route("/console/sign-in", get(session::ask).post(session::sign_in))
            .route("/console/sign-out", post(session::sign_out))
            .route("/console/lanes/{lane}", get(lane::page))
            .route("/console/lanes/{lane}/windows.svg", get(lane::windows))
            .route("/console/lanes/{lane}/rate.svg", get(lane::rate))
            .route("/console/lanes/{lane}/certificate", get(lane::certificate))
            .route("/console/lanes/{lane}/pause", post(lane::pause))
            .route("/console/lanes/{lane}/resume", post(lane::resume))
            .route("/console/lanes/{lane}/limit", post(lane::limit))
            .route("/console/payments", get(payments::list))
            .route("/console/payments/{id}", get(payments::page))
            .route("/console/payments/{id}/cancel", post(payments::cancel))
            .route("/console/payments/{id}/release", post(payments::release))
            .route(
                "/console/payments/{id}/reschedule",
                post(payments::reschedule),
            )
            .route("/console/invoices", get(invoices::list))
            .route("/console/invoices/{id}", get(invoices::page))
            .route(
                "/console/invoices/{id}/reschedule",
                post(invoices::reschedule),
            )
            .route(
                "/console/schedules",
                get(schedules::page).post(schedules::save),
            )
            .route("/console/in-doubt", get(in_doubt::list))
            .route(
                "/console/in-doubt/{id}",
                get(doubt::page).post(doubt::resolve),
            )
            .route("/console/ask", post(doubt::ask))
            .route("/console/imports", get(imports::list).merge(upload))
            .route("/console/imports/{batch}", get(imports::page))
            .route(
                "/console/status-checks",
                get(status_checks::list).post(status_checks::begin),
            )
            .route("/console/status-checks/{id}", get(status_checks::page))
            .route("/console/dead-letters", get(worklists::dead_letters))
            .route(
                "/console/dead-letters/{item_type}/{id}/replay",
                post(worklists::replay),
            )
            .route("/console/item-types", get(worklists::item_types))
            .route("/console/item-types/{item_type}", post(worklists::switch))
            .route("/console/audit", get(accounts::audit))
            .route("/console/totals", get(accounts::totals))
            .layer(map_response(guarded))
            .layer(from_fn_with_state(self.bounds, crate::api::bound))
            .with_state(self.clone());
        self.api.merge(pages)
    }
}

/// Where the API takes an act without a reason, a person still says one.
fn must_say_why(reason: &str) -> Result<(), Problem> {
    if reason.trim().is_empty() {
        let error = "a reason is required";
        return Err(Problem::new(StatusCode::BAD_REQUEST, error));
    }
    Ok(())
}

/// Nothing from elsewhere, no script but our own, and in nobody's frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

async fn guarded(mut response: Response) -> Response {
    let always = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ];
    let headers = response.headers_mut();
    for (name, value) in always {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let no_store = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    response
}

async fn style() -> Response {
    asset("text/css; charset=utf-8", include_str!("style.css"))
}

async fn script() -> Response {
    asset("text/javascript; charset=utf-8", include_str!("script.js"))
}

async fn icon() -> Response {
    asset("image/svg+xml", include_str!("icon.svg"))
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text).into_response()
}
