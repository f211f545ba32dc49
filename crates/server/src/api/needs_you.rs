//! `GET /admin/needs-you`: everything that waits for a person; and that a person has seen it.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{Amount, Need, NewSeen, Seen};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::api::answer::error::ApiError;
use crate::api::contract::refusals::{Changes, Reads};
use crate::api::contract::words;
use crate::api::imports::views::grouped;
use crate::api::request::body::{Body, author, parse};
use crate::api::request::extract::Path;
use crate::door::auth::Caller;
use crate::needs_you::{KillSwitch, Needed, Needs, advice};

/// Everything that needs a person. At most two seconds old.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NeedsYou)]
struct NeedsResponse {
    as_of: Timestamp,
    /// What needs a person, the most urgent first. Empty if nothing does.
    needs: Vec<NeedResponse>,
    /// What a person has marked as seen. It returns to `needs` when its count grows.
    seen: Vec<NeedResponse>,
    /// Kill switches that are on, also when a person has seen them.
    kill_switches: Vec<SwitchResponse>,
}

/// One kind of what needs a person.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Need)]
struct NeedResponse {
    #[schema(schema_with = words::need)]
    kind: &'static str,
    #[schema(example = "Held")]
    title: &'static str,
    /// Number of items, lanes, imports or item types.
    #[schema(example = 1414)]
    count: u64,
    /// Whether there may be more than `count`: counting stops at 100,000, and at 10,000 where each item is looked up.
    at_least: bool,
    /// Total amounts by currency. Empty where no money is involved.
    amounts: Vec<AmountResponse>,
    /// When the oldest was due, sent, accepted, paused or reported. With `deadlines-at-risk`, the first deadline.
    oldest: Option<Timestamp>,
    /// What to do.
    #[schema(example = "Release, reschedule or cancel them, one by one or all together.")]
    todo: &'static str,
    /// Page of the console where it is done.
    #[schema(example = "/console/held")]
    console: String,
    /// Section of the handbook.
    #[schema(example = "docs/operations.md#payments-are-held")]
    handbook: &'static str,
    /// Lanes, item types or parts, each with a sentence. At most 20.
    details: Vec<DetailResponse>,
    /// Who has seen it. Null in `needs`.
    seen: Option<SeenResponse>,
}

/// Total amount in one currency.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NeedAmount)]
pub(super) struct AmountResponse {
    #[schema(example = "USD")]
    currency: String,
    count: u64,
    #[schema(example = "125.50")]
    amount: String,
}

impl From<&Amount> for AmountResponse {
    fn from(amount: &Amount) -> Self {
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

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NeedDetail)]
struct DetailResponse {
    #[schema(example = "default")]
    name: String,
    #[schema(example = "lane \"default\" is paused by ann: maintenance; 1,234 waiting")]
    what: String,
}

/// Who has seen it, when, and why nothing needs to be done now.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NeedSeen)]
struct SeenResponse {
    by: String,
    at: Timestamp,
    reason: String,
    /// Number that was seen, or that is left of it.
    count: u64,
}

/// An item type that is not dispatched.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = KillSwitch)]
struct SwitchResponse {
    #[schema(example = "PAYMENT")]
    item_type: String,
    by: String,
    since: Timestamp,
    reason: String,
}

impl NeedResponse {
    fn of(needed: &Needed) -> Self {
        let advice = advice(needed.kind);
        let (pile, named) = (&needed.pile, needed.named.iter());
        let detail = |(name, what): (&String, &String)| DetailResponse {
            name: name.clone(),
            what: what.clone(),
        };
        Self {
            kind: needed.kind.as_str(),
            title: advice.title,
            count: pile.count,
            at_least: pile.is_capped,
            amounts: pile.amounts.iter().map(AmountResponse::from).collect(),
            oldest: pile.oldest,
            todo: advice.todo,
            console: needed.page(),
            handbook: advice.handbook,
            details: named.map(|it| detail((&it.name, &it.what))).collect(),
            seen: needed.seen.as_ref().map(SeenResponse::from),
        }
    }
}

impl From<&Seen> for SeenResponse {
    fn from(seen: &Seen) -> Self {
        Self {
            by: seen.author.actor.clone(),
            at: seen.at,
            reason: seen.author.reason.clone(),
            count: seen.count,
        }
    }
}

impl From<&KillSwitch> for SwitchResponse {
    fn from(switch: &KillSwitch) -> Self {
        Self {
            item_type: switch.item_type.to_string(),
            by: switch.off.by.actor.clone(),
            since: switch.off.since,
            reason: switch.off.by.reason.clone(),
        }
    }
}

impl From<&Needs> for NeedsResponse {
    fn from(needs: &Needs) -> Self {
        let told = |is_open: bool| {
            let some = needs.all.iter().filter(move |it| it.is_open() == is_open);
            some.map(NeedResponse::of).collect()
        };
        Self {
            as_of: needs.as_of,
            needs: told(true),
            seen: told(false),
            kill_switches: needs.switches.iter().map(SwitchResponse::from).collect(),
        }
    }
}

/// Lists everything that needs a person: what, how many, how much money, since when, and what to do.
#[utoipa::path(
    get, path = "/admin/needs-you", operation_id = "needsYou", tag = "worklists",
    responses((status = 200, description = "All kinds that need a person now.", body = NeedsResponse), Reads),
)]
async fn list(State(app): State<App>) -> Result<Json<NeedsResponse>, ApiError> {
    let needs = app.needs_you.now().await?;
    Ok(Json(NeedsResponse::from(&*needs)))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NeedSeenRequest)]
struct SeenRequest {
    /// Why nothing needs to be done now. Recorded in the audit log.
    #[schema(
        min_length = 1,
        max_length = 500,
        example = "the bank clears it tomorrow"
    )]
    reason: String,
    /// The count that you saw. 409 if there are more by now. Default: the current count.
    #[schema(minimum = 1)]
    count: Option<u64>,
}

/// Marks a kind as seen: it leaves the list until its count grows.
#[utoipa::path(
    post, path = "/admin/needs-you/{kind}/seen", operation_id = "markSeen", tag = "worklists",
    params(("kind" = String, Path, description = "One of the kinds of `GET /admin/needs-you`.", example = "held")),
    request_body = SeenRequest,
    responses((status = 200, description = "What needs a person now.", body = NeedsResponse), Changes),
)]
async fn mark_seen(
    State(app): State<App>,
    caller: Caller,
    Path(kind): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<NeedsResponse>, ApiError> {
    let request: SeenRequest = parse(&headers, body)?;
    let author = author(&caller, request.reason)?;
    let kind = Need::parse(&kind).ok_or_else(|| {
        let known = Need::ALL.map(Need::as_str).join(", ");
        ApiError::not_found(format!("unknown kind {kind:?}; known: {known}"))
    })?;
    app.needs_you.forget();
    let needs = app.needs_you.now().await?;
    let needed = needs.of(kind).ok_or_else(|| {
        ApiError::conflict(format!(
            "nothing of the kind \"{}\" needs a person",
            kind.as_str()
        ))
    })?;
    let count = needed.pile.count;
    if request.count.is_some_and(|seen| count > seen) {
        let (now, seen) = (grouped(count), grouped(request.count.unwrap_or_default()));
        return Err(ApiError::conflict(format!(
            "there are {now} now, and you saw {seen}; look again"
        )));
    }
    if needed.pile.is_capped && !kind.is_past() {
        let error = "there are too many to be counted, so growth would not be noticed; it cannot be marked as seen";
        return Err(ApiError::conflict(error));
    }
    let mark = needed.pile.last;
    app.store
        .mark_seen(kind, NewSeen { count, mark }, author.clone())
        .await?;
    app.acted(&author.actor, "marked as seen", kind.as_str());
    Ok(Json(NeedsResponse::from(&*app.needs_you.now().await?)))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(mark_seen))
}
