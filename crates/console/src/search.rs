//! One field that takes any id, reference or account.

use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use tollgate_contract::Needs;

use super::Console;
use super::call::{Problem, part, query};
use super::session::Session;

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    q: String,
}

/// Where a thing of this id is asked for, and its page.
const IDS: [(&str, &str); 5] = [
    ("/payments/", "/console/payments/"),
    ("/invoices/", "/console/invoices/"),
    ("/payments/bulk/", "/console/imports/"),
    ("/admin/jobs/", "/console/jobs/"),
    ("/payments/check-status/", "/console/status-checks/"),
];

/// An id has a page of its own. A reference, or else an account, is a list of payments.
pub(super) async fn find(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let sought = asked.q.trim();
    if sought.is_empty() {
        return Ok(Redirect::to("/console/payments").into_response());
    }
    // An item of the audit log: PAYMENT/pay_001.
    let id = sought.rsplit('/').next().unwrap_or(sought);
    for (api, page) in IDS {
        if console.has(&session, &format!("{api}{}", part(id))).await? {
            return Ok(Redirect::to(&format!("{page}{}", part(id))).into_response());
        }
    }
    let lane = query(&[("configName", sought), ("limit", "1")]);
    if console
        .has(&session, &format!("/admin/rate-limit/windows{lane}"))
        .await?
    {
        return Ok(Redirect::to(&format!("/console/lanes/{}", part(sought))).into_response());
    }
    if !session.may(Needs::Read) {
        let error = "nothing has this id; your token only allows you to search by id";
        return Err(Problem::new(StatusCode::NOT_FOUND, error));
    }
    for field in ["reference", "account"] {
        let wanted = query(&[(field, sought), ("limit", "1")]);
        let found: tollgate_contract::PaymentList =
            console.get(&session, &format!("/payments{wanted}")).await?;
        if !found.payments.is_empty() {
            return Ok(listed(field, sought));
        }
    }
    Ok(listed("reference", sought))
}

fn listed(field: &str, sought: &str) -> Response {
    let wanted = query(&[(field, sought)]);
    Redirect::to(&format!("/console/payments{wanted}")).into_response()
}

impl Console {
    /// Whether the API has something there that the reader may see.
    async fn has(&self, session: &Session, address: &str) -> Result<bool, Problem> {
        let Ok(request) = Request::get(address).body(Body::empty()) else {
            return Ok(false);
        };
        match self.answer(session, request).await {
            Ok(_) => Ok(true),
            Err(problem) if problem.status.is_server_error() => Err(problem),
            Err(_) => Ok(false),
        }
    }
}
