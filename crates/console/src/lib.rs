//! The operator's console: pages for people, drawn by the server. It knows nothing but the API's contract: each page
//! asks the API within its process, in its reader's name, so it can show and do what the reader may and nothing else.
//! Who reads is told by the [`Door`].

mod accounts;
mod adjust;
mod archive;
mod call;
mod chart;
mod door;
mod doubt;
mod export;
mod feeds;
mod handbook;
mod held;
mod imports;
mod in_doubt;
mod invoices;
mod jobs;
mod lane;
mod live;
mod needs_you;
mod now;
mod payments;
mod schedules;
mod search;
mod session;
mod shell;
mod status_checks;
mod turns;
mod worklists;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get, post};
use tokio::sync::watch;

use call::Problem;
pub use door::{Away, Door, NewSession, Reader};
pub use handbook::handbook_section;

/// What pages work with.
#[derive(Clone)]
pub struct Console {
    api: Router,
    door: Arc<dyn Door>,
    /// Proves that a form is ours where there are no tokens: new with every start.
    secret: Arc<str>,
    /// Whether TLS protects what browsers send, be it ours or a proxy's.
    by_tls: bool,
    live: Arc<live::Live>,
    /// True once the service is about to stop: live pages must not keep it.
    closing: watch::Receiver<bool>,
}

impl Console {
    /// `api`: the whole API, which pages ask. `closing` says that the service is about to end.
    pub fn new(
        api: Router,
        door: Arc<dyn Door>,
        by_tls: bool,
        closing: watch::Receiver<bool>,
    ) -> Self {
        Self {
            api,
            door,
            secret: session::secret(),
            by_tls,
            live: Arc::default(),
            closing,
        }
    }

    /// The pages, to be served beside the API.
    pub fn pages(self) -> Router {
        // A file may be of any size; everything else is a form.
        let upload = post(imports::upload).layer(DefaultBodyLimit::disable());
        Router::new()
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
            .route(
                "/console/lanes/{lane}/adjust",
                get(adjust::page).post(adjust::apply),
            )
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
            .route("/console/imports", get(imports::list).merge(upload))
            .route("/console/imports/{batch}", get(imports::page))
            .route("/console/imports/{batch}/rejected", get(export::rejected))
            .route(
                "/console/status-checks",
                get(status_checks::list).post(status_checks::begin),
            )
            .route("/console/status-checks/{id}", get(status_checks::page))
            .route("/console/feeds", get(feeds::list))
            .route("/console/feeds/{feed}/pause", post(feeds::pause))
            .route("/console/feeds/{feed}/resume", post(feeds::resume))
            .route("/console/item-types", get(worklists::item_types))
            .route("/console/item-types/{item_type}", post(worklists::switch))
            .route("/console/search", get(search::find))
            .route("/console/export/{list}", get(export::file))
            .route("/console/archive", get(archive::page))
            .route("/console/archive/{day}", get(archive::day))
            .route("/console/audit", get(accounts::audit))
            .route("/console/totals", get(accounts::totals))
            .route("/console", get(start))
            .route("/console/", get(start))
            .route("/console/{*page}", any(missing))
            .merge(work())
            .layer(from_fn_with_state(self.clone(), session::with_menu))
            .layer(map_response(guarded))
            .with_state(self)
    }
}

impl std::fmt::Debug for Console {
    /// Without its secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

/// What waits for a person, and acts on many.
fn work() -> Router<Console> {
    Router::new()
        .route("/console/needs-you", get(needs_you::page))
        .route("/console/needs-you/{kind}/seen", post(needs_you::seen))
        .route("/console/handbook/{section}", get(handbook::page))
        .route("/console/held", get(held::list))
        .route("/console/held/{id}", post(held::decide))
        .route("/console/in-doubt", get(in_doubt::list))
        .route(
            "/console/in-doubt/{id}",
            get(doubt::page).post(doubt::resolve),
        )
        .route("/console/ask", post(doubt::ask))
        .route("/console/dead-letters", get(worklists::dead_letters))
        .route(
            "/console/dead-letters/{item_type}/{id}/replay",
            post(worklists::replay),
        )
        .route("/console/jobs", get(jobs::list).post(jobs::begin))
        .route("/console/jobs/{job}", get(jobs::page))
        .route("/console/jobs/{job}/items", get(export::items))
        .route("/console/jobs/{job}/stop", post(jobs::stop))
}

async fn start() -> Redirect {
    Redirect::to("/")
}

/// For people: what a program asks for has an address of the API.
async fn missing() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "this page does not exist")
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
