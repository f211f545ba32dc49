//! The worklist of what nobody knows the outcome of: `/admin/in-doubt`.

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_core::Timestamp;
use tollgate_core::id::{Item, ItemId};
use tollgate_core::money::{Currency, Money};
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{AtRisk, Author, IN_DOUBT, Intervened, ItemView, Resolved, SettingKind};
use tollgate_domains::payments;

use super::App;
use super::body::{Body, author, parse, wrong};
use super::error::ApiError;
use super::payments::told;
use crate::auth::Caller;

const PAGE: u32 = 100;

#[derive(Debug, Deserialize)]
struct After {
    after: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ListResponse {
    at_risk: Vec<RiskResponse>,
    items: Vec<DoubtResponse>,
    /// Ask with `?after=` for the next page; null on the last one.
    next_after: Option<ItemId>,
}

#[derive(Debug, Serialize)]
struct RiskResponse {
    currency: String,
    count: u64,
    amount: String,
    since: Timestamp,
}

impl From<AtRisk> for RiskResponse {
    fn from(risk: AtRisk) -> Self {
        let money = |currency| Money {
            minor: risk.amount_minor,
            currency,
        };
        let amount = Currency::from_code(&risk.currency).map(|currency| money(currency).decimal());
        Self {
            amount: amount.unwrap_or_else(|| risk.amount_minor.to_string()),
            currency: risk.currency,
            count: risk.count,
            since: risk.since,
        }
    }
}

/// What was sent, when, what was heard of it, and what happens next.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DoubtResponse {
    item_type: String,
    id: ItemId,
    amount: String,
    currency: &'static str,
    lane: String,
    first_sent: Option<Timestamp>,
    last_sent: Option<Timestamp>,
    sends: usize,
    questions: usize,
    last_heard: Option<String>,
    /// When it is asked about or sent again, as things stand.
    next_at: Timestamp,
}

impl From<ItemView> for DoubtResponse {
    fn from(view: ItemView) -> Self {
        let of = |kind| {
            view.attempts
                .iter()
                .filter(move |attempt| attempt.kind == kind)
        };
        let lost = |kind| of(kind).filter(|attempt| attempt.state == AttemptState::Unknown);
        Self {
            first_sent: lost(AttemptKind::Send).map(|attempt| attempt.turn_at).min(),
            last_sent: of(AttemptKind::Send).map(|attempt| attempt.turn_at).max(),
            sends: of(AttemptKind::Send).count(),
            questions: of(AttemptKind::Probe).count(),
            last_heard: view.attempts.last().map(|attempt| attempt.detail.clone()),
            item_type: view.item.item_type.to_string(),
            amount: view.money.decimal(),
            currency: view.money.currency.code(),
            lane: view.lane.to_string(),
            next_at: view.due,
            id: view.item.id,
        }
    }
}

async fn list(
    State(app): State<App>,
    Query(query): Query<After>,
) -> Result<Json<ListResponse>, ApiError> {
    let item_type = payments::item_type();
    let after = query.after.map(ItemId::new);
    let ids = app.store.in_doubt(&item_type, after.as_ref(), PAGE).await?;
    let next_after = (ids.len() == PAGE as usize).then(|| ids.last().cloned());
    let mut items = vec![];
    for id in &ids {
        let view = app.store.item(&Item::new(&item_type, id)).await?;
        items.extend(view.map(DoubtResponse::from));
    }
    let at_risk = app.store.at_risk(&item_type).await?;
    Ok(Json(ListResponse {
        at_risk: at_risk.into_iter().map(RiskResponse::from).collect(),
        items,
        next_after: next_after.flatten(),
    }))
}

async fn show(
    State(app): State<App>,
    Path((item_type, id)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    is_payment(&item_type)?;
    told(&app, &id).await
}

fn is_payment(item_type: &str) -> Result<(), ApiError> {
    if item_type.eq_ignore_ascii_case(payments::item_type().as_str()) {
        return Ok(());
    }
    Err(ApiError::not_found(format!(
        "there is no item type \"{item_type}\""
    )))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResolveRequest {
    outcome: Resolved,
    reason: String,
    /// Who decides; needed where two persons must and there are no tokens.
    actor: Option<String>,
}

async fn resolve(
    State(app): State<App>,
    caller: Caller,
    Path((item_type, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    is_payment(&item_type)?;
    let request: ResolveRequest = parse(&headers, body)?;
    let mut author = author(&caller, request.reason)?;
    author.actor = actor(&caller, request.actor.as_deref(), app.two_persons)?;
    let item = payments::item(&ItemId::new(&id));
    if app.two_persons {
        match app.second_person(&item, request.outcome, &author).await? {
            None => {
                let needs = "a second person, with another actor and the same outcome";
                let body = json!({"status": "PROPOSED", "needs": needs});
                return Ok((StatusCode::ACCEPTED, Json(body)).into_response());
            }
            Some(first) => {
                let (actor, reason) = (&first.actor, &first.reason);
                author.reason = format!("{} (proposed by {actor}: {reason})", author.reason);
            }
        }
    }
    let resolution = payments::resolution(request.outcome);
    match app.store.resolve(&item, resolution, author).await? {
        Intervened::Yes => Ok(told(&app, &id).await?.into_response()),
        Intervened::NoSuchItem => Err(ApiError::not_found(format!("there is no payment {id}"))),
        Intervened::Refused(why) => Err(ApiError::conflict(format!(
            "payment {id} cannot be resolved: {why}"
        ))),
    }
}

/// Who decides. With tokens that is the token's name, and nobody can say otherwise.
fn actor(caller: &Caller, said: Option<&str>, must_say: bool) -> Result<String, ApiError> {
    let said = said.map(str::trim).filter(|said| !said.is_empty());
    match (caller, said) {
        (Caller::Token { name, .. }, Some(said)) if said != &**name => {
            let what = format!("is the name of the token, \"{name}\"; leave it out");
            Err(wrong("actor", what))
        }
        (Caller::Local, None) if must_say => {
            let what = "must say who decides: two persons must agree";
            Err(wrong("actor", what))
        }
        (Caller::Local, Some(said)) => Ok(said.to_owned()),
        (Caller::Local, None) | (Caller::Token { .. }, _) => Ok(caller.name().to_owned()),
    }
}

impl App {
    /// Who proposed the same before, if that was somebody else; else this becomes the proposal. It
    /// holds for this run only: what was sent again is another question.
    async fn second_person(
        &self,
        item: &Item,
        outcome: Resolved,
        author: &Author,
    ) -> Result<Option<Author>, ApiError> {
        let view = self.store.item(item).await?;
        let view =
            view.ok_or_else(|| ApiError::not_found(format!("there is no payment {}", item.id)))?;
        if view.status != IN_DOUBT {
            let (id, status) = (&item.id, view.status);
            return Err(ApiError::conflict(format!(
                "payment {id} cannot be resolved: it is {status}, not {IN_DOUBT}"
            )));
        }
        let (kind, name) = (SettingKind::Proposal, item.to_string());
        let wish = json!({"outcome": outcome.as_str(), "run": view.run}).to_string();
        let proposed = self.store.setting(kind, &name).await?;
        if let Some(first) = proposed
            && first.body_json == wish
            && first.author.actor != author.actor
        {
            return Ok(Some(first.author));
        }
        let author = author.clone();
        self.store.put_setting(kind, &name, wish, author).await?;
        Ok(None)
    }
}

pub(super) fn router() -> Router<App> {
    Router::new()
        .route("/admin/in-doubt", get(list))
        .route("/admin/in-doubt/{item_type}/{id}", get(show))
        .route("/admin/in-doubt/{item_type}/{id}/resolve", post(resolve))
}
