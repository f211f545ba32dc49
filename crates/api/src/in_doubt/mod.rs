//! Items in doubt: one of them with a person's resolution (`/admin/in-doubt/{type}/{id}`, here), the worklist (`list.rs`),
//! and asking the banks (`ask.rs`).

mod ask;
mod ask_banks;
pub(crate) mod list;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tollgate_contract as contract;
use tollgate_core::id::{Item, ItemType};
use tollgate_core::ports::{ActionResult, Author, IN_DOUBT, Resolved, SettingKind, sent_since};
use tollgate_domains::{invoices as bills, payments};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::invoices;
use super::payments::{payment_id, shown};
use crate::answer::error::ApiError;
use crate::contract::refusals::{Changes, Finds};
use crate::door::auth::Caller;
use crate::request::body::{Body, author, parse, wrong};
use crate::request::extract::Path;

/// One item in doubt: its sends, the answers, and the next step.
#[utoipa::path(
    get, path = "/admin/in-doubt/{item_type}/{id}", operation_id = "getInDoubt", tag = "worklists",
    params(
        ("item_type" = String, Path, description = "`PAYMENT` or `INVOICE`.", example = "PAYMENT"),
        ("id" = String, Path, description = "The item's id.", example = "pay_001"),
    ),
    responses((status = 200, description = "The item and its current state.", body = contract::Doubtful), Finds),
)]
async fn show(
    State(app): State<App>,
    caller: Caller,
    Path((item_type, id)): Path<(String, String)>,
) -> Result<Json<contract::Doubtful>, ApiError> {
    as_it_is(&app, &caller, &of_money(&item_type)?, &id).await
}

async fn as_it_is(
    app: &App,
    caller: &Caller,
    item_type: &ItemType,
    id: &str,
) -> Result<Json<contract::Doubtful>, ApiError> {
    Ok(Json(if *item_type == bills::item_type() {
        let Json(invoice) = invoices::shown(app, id).await?;
        contract::Doubtful::Invoice(Box::new(invoice))
    } else {
        let Json(payment) = shown(app, caller, id).await?;
        contract::Doubtful::Payment(Box::new(payment))
    }))
}

/// Only payments and invoices are ever in doubt.
pub(super) fn of_money(name: &str) -> Result<ItemType, ApiError> {
    let known = App::item_type_named(name)?;
    if [payments::item_type(), bills::item_type()].contains(&known) {
        return Ok(known);
    }
    let error = format!("an item of type {known} is never in doubt");
    Err(ApiError::not_found(error))
}

fn outcome(request: &contract::Resolution) -> Result<Resolved, ApiError> {
    let mut all = Resolved::ALL.into_iter();
    let found = all.find(|word| word.as_str() == request.outcome);
    found.ok_or_else(|| wrong("outcome", "must be done, not_done or failed"))
}

/// Resolves an item in doubt. Ask the bank first.
#[utoipa::path(
    post, path = "/admin/in-doubt/{item_type}/{id}/resolve", operation_id = "resolveInDoubt", tag = "worklists",
    params(
        ("item_type" = String, Path, description = "`PAYMENT` or `INVOICE`.", example = "PAYMENT"),
        ("id" = String, Path, description = "The item's id.", example = "pay_001"),
    ),
    request_body = contract::Resolution,
    responses(
        (status = 200, description = "The item and its current state.", body = contract::ResolutionResult),
        (status = 202, description = "Recorded as a proposal. A second person must confirm it.", body = contract::ResolutionResult),
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
    let request: contract::Resolution = parse(&headers, body)?;
    let outcome = outcome(&request)?;
    let mut author = author(&caller, request.reason.clone())?;
    author.actor = actor(&caller, request.actor.as_deref(), app.two_persons)?;
    let no_item = || ApiError::not_found(format!("there is no {item_type} {id}"));
    let known = payment_id(&id).map_err(|_| no_item())?;
    let item = Item::new(&item_type, &known);
    if app.two_persons {
        match app.second_person(&item, &request, &author).await? {
            None => {
                let body = contract::Proposed {
                    status: "PROPOSED".to_owned(),
                    needs: "a second person, with another actor and the same outcome".to_owned(),
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
        bills::resolution(outcome, request.sends)
    } else {
        payments::resolution(outcome, request.sends)
    };
    let actor = author.actor.clone();
    match app.store.resolve(&item, resolution, author).await? {
        ActionResult::Yes => {
            app.acted(&actor, "resolved", &item.to_string());
            let told = as_it_is(&app, &caller, &item_type, &id).await?;
            Ok(told.into_response())
        }
        ActionResult::NoSuchItem => Err(no_item()),
        ActionResult::Refused(why) => Err(unresolvable(&item, &why)),
    }
}

fn unresolvable(item: &Item, why: &str) -> ApiError {
    ApiError::conflict(format!("{item} cannot be resolved: {why}"))
}

/// Who decides. With tokens that is the token's name.
fn actor(caller: &Caller, said: Option<&str>, must_say: bool) -> Result<String, ApiError> {
    let said = said.map(str::trim).filter(|said| !said.is_empty());
    match (caller, said) {
        (Caller::Token { name, .. }, Some(said)) if said != &**name => {
            let what = format!("must be the token's name, \"{name}\"; leave it out");
            Err(wrong("actor", what))
        }
        (Caller::Local, None) if must_say => {
            let what = "is required: name the person who decides (in_doubt.two_persons is on)";
            Err(wrong("actor", what))
        }
        (Caller::Local, Some(said)) => Ok(said.to_owned()),
        (Caller::Local, None) | (Caller::Token { .. }, _) => Ok(caller.name().to_owned()),
    }
}

impl App {
    /// Who proposed the same before, if that was somebody else; else this becomes the proposal. It
    /// holds for these sends only: what was sent again is another question.
    async fn second_person(
        &self,
        item: &Item,
        request: &contract::Resolution,
        author: &Author,
    ) -> Result<Option<Author>, ApiError> {
        let view = self.store.item(item).await?;
        let view = view.ok_or_else(|| ApiError::not_found(format!("there is no {item}")))?;
        if view.status != IN_DOUBT {
            let why = format!("it is {}, not {IN_DOUBT}", view.status);
            return Err(unresolvable(item, &why));
        }
        if let Some(why) = sent_since(request.sends, view.sends()) {
            return Err(unresolvable(item, &why));
        }
        let (kind, name) = (SettingKind::Proposal, item.to_string());
        let wish = json!({"outcome": request.outcome.as_str(), "sends": request.sends});
        let wish = wish.to_string();
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
        .routes(routes!(show))
        .routes(routes!(resolve))
        .merge(list::router())
        .merge(ask::router())
}
