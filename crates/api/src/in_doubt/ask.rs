//! `POST /admin/in-doubt/ask`: has payments in doubt asked about at their banks, or by the services of status checks; one
//! or all of a day. An answer that is evidence ends the doubt; everything else leaves it.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tollgate_config::AskWhom;
use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::id::{FlowId, Item};
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{ItemView, NewAudit};
use tollgate_domains::payments;
use tollgate_domains::status_checks::{MAX_PAYMENTS, payment_ids};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ask_banks::ask_banks;
use crate::App;
use crate::accounts::Day;
use crate::answer::error::ApiError;
use crate::contract::refusals::Starts;
use crate::door::auth::Caller;
use crate::request::body::{Body, parse, wrong};
use crate::status_checks::{new_id, not_started};

/// At most this many are read at a time, and at most `MOST` are asked about.
const PAGE: u32 = 100;
const MOST: usize = 5 * MAX_PAYMENTS;

/// Asks the banks about payments in doubt. With `in_doubt.ask = "services"`, starts status checks instead.
///
/// Each query takes a turn in the bank's lane. If the bank has executed the payment, it is no longer in doubt. Any
/// other answer changes nothing. 502 if no bank could be asked about any of the payments; the error says why.
#[utoipa::path(
    post, path = "/admin/in-doubt/ask", operation_id = "askInDoubt", tag = "worklists",
    request_body = contract::InDoubtQuestion,
    responses(
        (status = 200, description = "The banks were asked, or no payment of that day is in doubt.", body = contract::InDoubtQuestions),
        (status = 202, description = "The status checks have started.", body = contract::InDoubtQuestions),
        (status = 502, description = "No bank was asked; the error says why.", body = tollgate_contract::Error),
        Starts,
    ),
)]
async fn ask(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let request: contract::InDoubtQuestion = parse(&headers, body)?;
    let ids = match (request.payment_ids, &request.date) {
        (Some(_), Some(_)) => return Err(wrong("date", "give payments or a day, not both")),
        (Some(ids), None) => payment_ids(&json!({"paymentIds": ids})).map_err(ApiError::invalid)?,
        (None, _) => {
            let (date, zone) = (request.date, request.zone);
            app.in_doubt_on(&Day { date, zone }).await?
        }
    };
    if ids.is_empty() {
        return Ok(Json(contract::InDoubtQuestions::default()).into_response());
    }
    match app.ask {
        AskWhom::Bank => from_banks(&app, &caller, &ids).await,
        AskWhom::Services => by_services(&app, &caller, &ids).await,
    }
}

async fn from_banks(app: &App, caller: &Caller, ids: &[String]) -> Result<Response, ApiError> {
    note(app, caller, format!("{} payments, their banks", ids.len())).await?;
    let told = ask_banks(app, caller.name(), ids).await?;
    if told.payments == 0 {
        let error = "none of these payments is in doubt";
        return Err(ApiError::conflict(error));
    }
    let told = told.must_have_asked()?;
    let answer = contract::InDoubtQuestions {
        payments: told.payments,
        asked: Some(told.asked),
        answered: Some(told.answered),
        resolved: Some(told.resolved),
        left: told.left,
        workflow_ids: vec![],
    };
    Ok(Json(answer).into_response())
}

async fn by_services(app: &App, caller: &Caller, ids: &[String]) -> Result<Response, ApiError> {
    let mut workflow_ids = vec![];
    for some in ids.chunks(MAX_PAYMENTS) {
        let id = new_id();
        let check = FlowId::new(&id);
        note(app, caller, format!("{} payments, by {id}", some.len())).await?;
        let started = app.status_checks.resolve(&check, some.to_vec()).await;
        started.map_err(|error| not_started(&id, error))?;
        workflow_ids.push(id);
    }
    let answer = contract::InDoubtQuestions {
        payments: ids.len(),
        workflow_ids,
        ..contract::InDoubtQuestions::default()
    };
    Ok((StatusCode::ACCEPTED, Json(answer)).into_response())
}

/// Before they are asked: what ends a doubt has a name behind it.
async fn note(app: &App, caller: &Caller, detail: String) -> Result<(), ApiError> {
    app.acted(caller.name(), "asked about payments in doubt", &detail);
    let entry = NewAudit {
        action: "IN_DOUBT_ASKED".to_owned(),
        actor: caller.name().to_owned(),
        detail,
        ..NewAudit::default()
    };
    Ok(app.store.write_audit(entry).await?)
}

impl App {
    /// What is in doubt and was last sent on that day.
    async fn in_doubt_on(&self, day: &Day) -> Result<Vec<String>, ApiError> {
        let (from, to) = day.range(self.store.now().await?)?;
        let item_type = payments::item_type();
        let (mut found, mut after) = (vec![], None);
        while found.len() < MOST {
            let page = self
                .store
                .in_doubt(&item_type, after.as_ref(), PAGE)
                .await?;
            for id in &page {
                let view = self.store.item(&Item::new(&item_type, id)).await?;
                let sent = view.as_ref().and_then(last_lost);
                if sent.is_some_and(|sent| from <= sent && sent < to) {
                    found.push(id.to_string());
                }
            }
            match page.last() {
                Some(last) => after = Some(last.clone()),
                None => break,
            }
        }
        Ok(found)
    }
}

/// Time of the last send whose outcome is unknown.
fn last_lost(view: &ItemView) -> Option<Timestamp> {
    let lost = view.attempts.iter().filter(|attempt| {
        attempt.kind == AttemptKind::Send && attempt.state == AttemptState::Unknown
    });
    lost.map(|attempt| attempt.turn_at).max()
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(ask))
}
