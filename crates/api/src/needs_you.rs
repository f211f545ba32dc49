//! `GET /admin/needs-you`: everything that waits for a person; and that a person has seen it.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use tollgate_contract as contract;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{Amount, Need, NewSeen, Seen};
use tollgate_operations::grouped;
use tollgate_operations::needs_you::{KillSwitch, Needed, Needs, advice};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::{Changes, Reads};
use crate::door::auth::Caller;
use crate::request::body::{Body, author, parse};
use crate::request::extract::Path;

impl Of<&Amount> for contract::NeedAmount {
    fn of(amount: &Amount) -> Self {
        let minor = amount.amount_minor;
        let known = Currency::from_code(&amount.currency);
        let told = known.map(|currency| Money { minor, currency }.decimal());
        Self {
            currency: amount.currency.clone(),
            count: amount.count,
            amount: told.unwrap_or_else(|| minor.to_string()),
        }
    }
}

impl Of<&Needed> for contract::Need {
    fn of(needed: &Needed) -> Self {
        let advice = advice(needed.kind);
        let (pile, named) = (&needed.pile, needed.named.iter());
        let detail = |(name, what): (&String, &String)| contract::NeedDetail {
            name: name.clone(),
            what: what.clone(),
        };
        Self {
            kind: needed.kind.as_str().to_owned(),
            title: advice.title.to_owned(),
            count: pile.count,
            at_least: pile.is_capped,
            amounts: pile.amounts.iter().map(contract::NeedAmount::of).collect(),
            oldest: pile.oldest,
            todo: advice.todo.to_owned(),
            console: needed.page(),
            handbook: advice.handbook.to_owned(),
            details: named.map(|it| detail((&it.name, &it.what))).collect(),
            seen: needed.seen.as_ref().map(contract::NeedSeen::of),
        }
    }
}

impl Of<&Seen> for contract::NeedSeen {
    fn of(seen: &Seen) -> Self {
        Self {
            by: seen.author.actor.clone(),
            at: seen.at,
            reason: seen.author.reason.clone(),
            count: seen.count,
        }
    }
}

impl Of<&KillSwitch> for contract::KillSwitch {
    fn of(switch: &KillSwitch) -> Self {
        Self {
            item_type: switch.item_type.to_string(),
            by: switch.off.by.actor.clone(),
            since: switch.off.since,
            reason: switch.off.by.reason.clone(),
        }
    }
}

impl Of<&Needs> for contract::NeedsYou {
    fn of(needs: &Needs) -> Self {
        let told = |is_open: bool| {
            let some = needs.all.iter().filter(move |it| it.is_open() == is_open);
            some.map(contract::Need::of).collect()
        };
        Self {
            as_of: needs.as_of,
            needs: told(true),
            seen: told(false),
            kill_switches: needs
                .switches
                .iter()
                .map(contract::KillSwitch::of)
                .collect(),
        }
    }
}

/// Lists everything that needs attention, with the count, the amounts, the oldest entry and what to do.
#[utoipa::path(
    get, path = "/admin/needs-you", operation_id = "needsYou", tag = "worklists",
    responses((status = 200, description = "All kinds that need attention now.", body = contract::NeedsYou), Reads),
)]
async fn list(State(app): State<App>) -> Result<Json<contract::NeedsYou>, ApiError> {
    let needs = app.needs_you.now().await?;
    Ok(Json(contract::NeedsYou::of(&*needs)))
}

/// Marks a kind as seen: it leaves the list until its count grows.
#[utoipa::path(
    post, path = "/admin/needs-you/{kind}/seen", operation_id = "markSeen", tag = "worklists",
    params(("kind" = String, Path, description = "One of the kinds of `GET /admin/needs-you`.", example = "held")),
    request_body = contract::NeedSeenRequest,
    responses((status = 200, description = "What needs attention now.", body = contract::NeedsYou), Changes),
)]
async fn mark_seen(
    State(app): State<App>,
    caller: Caller,
    Path(kind): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::NeedsYou>, ApiError> {
    let request: contract::NeedSeenRequest = parse(&headers, body)?;
    let author = author(&caller, request.reason)?;
    let kind = Need::parse(&kind).ok_or_else(|| {
        let known = Need::ALL.map(Need::as_str).join(", ");
        ApiError::not_found(format!("unknown kind {kind:?}; known: {known}"))
    })?;
    app.needs_you.forget();
    let needs = app.needs_you.now().await?;
    let needed = needs.of(kind).ok_or_else(|| {
        ApiError::conflict(format!(
            "nothing of the kind \"{}\" needs attention",
            kind.as_str()
        ))
    })?;
    let count = needed.pile.count;
    if request.count.is_some_and(|seen| count > seen) {
        let (now, seen) = (grouped(count), grouped(request.count.unwrap_or_default()));
        return Err(ApiError::conflict(format!(
            "there are {now} now, but you saw {seen}; look again"
        )));
    }
    if needed.pile.is_capped && !kind.is_past() {
        let error =
            "cannot be marked as seen: there are too many to count, so growth would go unnoticed";
        return Err(ApiError::conflict(error));
    }
    let mark = needed.pile.last;
    app.store
        .mark_seen(kind, NewSeen { count, mark }, author.clone())
        .await?;
    app.acted(&author.actor, "marked as seen", kind.as_str());
    Ok(Json(contract::NeedsYou::of(&*app.needs_you.now().await?)))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(mark_seen))
}
