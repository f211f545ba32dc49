//! Lists as files, as the API streams them.

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{Request, StatusCode};
use axum::response::Response;

use super::Console;
use super::call::{Problem, part};
use super::session::Session;

pub(super) async fn file(
    State(console): State<Console>,
    session: Session,
    Path(list): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let address = match list.as_str() {
        "payments" => "/payments",
        "invoices" => "/invoices",
        "held" => "/admin/held",
        "in-doubt" => "/admin/in-doubt",
        "dead-letters" => "/admin/dead-letters",
        "imports" => "/payments/bulk",
        "status-checks" => "/payments/check-status",
        "jobs" => "/admin/jobs",
        "audit" => "/admin/audit",
        _ => return Err(Problem::new(StatusCode::NOT_FOUND, "no such list")),
    };
    console.file(&session, address, query).await
}

/// The rejected lines of an import.
pub(super) async fn rejected(
    State(console): State<Console>,
    session: Session,
    Path(batch): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let address = format!("/payments/bulk/{}/errors", part(&batch));
    console.file(&session, &address, query).await
}

/// What a job did, item by item.
pub(super) async fn items(
    State(console): State<Console>,
    session: Session,
    Path(job): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let address = format!("/admin/jobs/{}/items", part(&job));
    console.file(&session, &address, query).await
}

impl Console {
    async fn file(
        &self,
        session: &Session,
        address: &str,
        query: Option<String>,
    ) -> Result<Response, Problem> {
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        let request = Request::get(format!("{address}{query}")).body(Body::empty());
        let unusual = |_| {
            Problem::new(
                StatusCode::BAD_REQUEST,
                "the address of this list is invalid",
            )
        };
        self.answer(session, request.map_err(unusual)?).await
    }
}
