//! The worklist of what nobody knows the outcome of: `/admin/in-doubt`.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_core::Timestamp;
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::money::{Currency, Money};
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{AtRisk, Author, IN_DOUBT, Intervened, ItemView, Resolved, SettingKind};
use tollgate_domains::{invoices as bills, payments};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::body::{Body, after_id, author, parse, wrong};
use super::error::ApiError;
use super::extract::{Path, Query};
use super::invoices::{self, InvoiceResponse};
use super::payments::{PaymentResponse, payment_id, told};
use super::refusals::{Changes, Finds};
use super::words;
use crate::auth::Caller;

const PAGE: u32 = 100;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct After {
    /// `PAYMENT` or `INVOICE`; payments if not given.
    #[serde(rename = "type")]
    #[param(example = "PAYMENT")]
    item_type: Option<String>,
    /// The next page: after this id.
    #[param(schema_with = words::id)]
    after: Option<String>,
}

/// What is in doubt, and how much is at risk.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = InDoubtList)]
struct ListResponse {
    at_risk: Vec<RiskResponse>,
    items: Vec<DoubtResponse>,
    /// Ask with `?after=` for the next page; null on the last one.
    #[schema(value_type = Option<String>)]
    next_after: Option<ItemId>,
}

/// What is in doubt in one currency.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AtRisk)]
struct RiskResponse {
    currency: String,
    count: u64,
    amount: String,
    /// Since when the oldest is in doubt.
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
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = InDoubt)]
struct DoubtResponse {
    #[schema(example = "PAYMENT")]
    item_type: String,
    #[schema(value_type = String, example = "pay_001")]
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

/// What nobody knows the outcome of, in the order of ids.
#[utoipa::path(
    get, path = "/admin/in-doubt", operation_id = "listInDoubt", tag = "worklists",
    params(After),
    responses((status = 200, description = "A page.", body = ListResponse), Finds),
)]
async fn list(
    State(app): State<App>,
    Query(query): Query<After>,
) -> Result<Json<ListResponse>, ApiError> {
    let item_type = match &query.item_type {
        Some(name) => of_money(name)?,
        None => payments::item_type(),
    };
    let after = query.after.map(after_id).transpose()?;
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

/// One of them: what was sent, what was heard, what happens next.
#[utoipa::path(
    get, path = "/admin/in-doubt/{item_type}/{id}", operation_id = "getInDoubt", tag = "worklists",
    params(
        ("item_type" = String, Path, description = "`PAYMENT` or `INVOICE`.", example = "PAYMENT"),
        ("id" = String, Path, description = "The item's id.", example = "pay_001"),
    ),
    responses((status = 200, description = "It, as it is now.", body = DoubtfulResponse), Finds),
)]
async fn show(
    State(app): State<App>,
    Path((item_type, id)): Path<(String, String)>,
) -> Result<Json<DoubtfulResponse>, ApiError> {
    as_it_is(&app, &of_money(&item_type)?, &id).await
}

/// What was, or is, in doubt, as it is now.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Doubtful)]
enum DoubtfulResponse {
    Payment(Box<PaymentResponse>),
    Invoice(Box<InvoiceResponse>),
}

async fn as_it_is(
    app: &App,
    item_type: &ItemType,
    id: &str,
) -> Result<Json<DoubtfulResponse>, ApiError> {
    Ok(Json(if *item_type == bills::item_type() {
        let Json(invoice) = invoices::told(app, id).await?;
        DoubtfulResponse::Invoice(Box::new(invoice))
    } else {
        let Json(payment) = told(app, id).await?;
        DoubtfulResponse::Payment(Box::new(payment))
    }))
}

/// Only payments and invoices are ever in doubt.
fn of_money(name: &str) -> Result<ItemType, ApiError> {
    let known = App::item_type_named(name)?;
    if [payments::item_type(), bills::item_type()].contains(&known) {
        return Ok(known);
    }
    let error = format!("a {known} is never in doubt");
    Err(ApiError::not_found(error))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Resolution)]
struct ResolveRequest {
    /// `done`: the bank did it; `not_done`: it did not, and it is sent again; `failed`: nobody pays
    /// it any more.
    #[schema(schema_with = words::resolved)]
    outcome: Resolved,
    /// How you know.
    #[schema(min_length = 1)]
    reason: String,
    /// Who decides; needed where two persons must and there are no tokens.
    actor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Proposed)]
struct ProposedResponse {
    #[schema(example = "PROPOSED")]
    status: &'static str,
    needs: &'static str,
}

/// Decides what became of one of them. Ask the bank first.
#[utoipa::path(
    post, path = "/admin/in-doubt/{item_type}/{id}/resolve", operation_id = "resolveInDoubt", tag = "worklists",
    params(
        ("item_type" = String, Path, description = "`PAYMENT` or `INVOICE`.", example = "PAYMENT"),
        ("id" = String, Path, description = "The item's id.", example = "pay_001"),
    ),
    request_body = ResolveRequest,
    responses(
        (status = 200, description = "It, as it is now.", body = DoubtfulResponse),
        (status = 202, description = "Proposed; a second person must agree.", body = ProposedResponse),
        Changes,
    ),
)]
async fn resolve(
    State(app): State<App>,
    caller: Caller,
    Path((item_type, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let item_type = of_money(&item_type)?;
    let request: ResolveRequest = parse(&headers, body)?;
    let mut author = author(&caller, request.reason)?;
    author.actor = actor(&caller, request.actor.as_deref(), app.two_persons)?;
    let no_item = || ApiError::not_found(format!("there is no {item_type} {id}"));
    let known = payment_id(&id).map_err(|_| no_item())?;
    let item = Item::new(&item_type, &known);
    if app.two_persons {
        match app.second_person(&item, request.outcome, &author).await? {
            None => {
                let body = ProposedResponse {
                    status: "PROPOSED",
                    needs: "a second person, with another actor and the same outcome",
                };
                return Ok((StatusCode::ACCEPTED, Json(body)).into_response());
            }
            Some(first) => {
                let (actor, reason) = (&first.actor, &first.reason);
                author.reason = format!("{} (proposed by {actor}: {reason})", author.reason);
            }
        }
    }
    let resolution = if item_type == bills::item_type() {
        bills::resolution(request.outcome)
    } else {
        payments::resolution(request.outcome)
    };
    match app.store.resolve(&item, resolution, author).await? {
        Intervened::Yes => Ok(as_it_is(&app, &item_type, &id).await?.into_response()),
        Intervened::NoSuchItem => Err(no_item()),
        Intervened::Refused(why) => Err(ApiError::conflict(format!(
            "{item} cannot be resolved: {why}"
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
        let view = view.ok_or_else(|| ApiError::not_found(format!("there is no {item}")))?;
        if view.status != IN_DOUBT {
            let status = view.status;
            return Err(ApiError::conflict(format!(
                "{item} cannot be resolved: it is {status}, not {IN_DOUBT}"
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

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(resolve))
}
