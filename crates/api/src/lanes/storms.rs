//! `/admin/storms`: lanes that paused themselves because their bank refused everything, and the
//! payments to send again.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::id::{ItemId, StormId};
use tollgate_core::money::Money;
use tollgate_core::ports::{ActionResult, Author, RefusedItem, Storm};
use tollgate_domains::payments;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::{Changes, Reads};
use crate::door::auth::Caller;
use crate::request::body::{Body, author, parse};
use crate::request::extract::{Path, Query};
use crate::request::page;

/// Payments are looked up this many at a time.
const AT_ONCE: u32 = 500;
/// One request reopens at most this many payments.
const MOST_REOPENED: usize = 5_000;
/// An answer lists at most this many payments that stay rejected.
const MOST_KEPT_SHOWN: usize = 100;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

impl Of<Storm> for contract::Storm {
    fn of(storm: Storm) -> Self {
        Self {
            storm: storm.id.0,
            lane: storm.lane.to_string(),
            connector: storm.connector,
            reason: storm.reason,
            since: storm.since,
            lifted_at: storm.lifted_at,
        }
    }
}

/// Refusal storms: lanes that were paused automatically because their bank refused nearly every payment.
#[utoipa::path(
    get, path = "/admin/storms", operation_id = "listStorms", tag = "lanes",
    params(ListQuery),
    responses((status = 200, description = "Newest first.", body = contract::StormList), Reads),
)]
async fn list(
    State(app): State<App>,
    Query(query): Query<ListQuery>,
) -> Result<Json<contract::StormList>, ApiError> {
    let storms = app.store.storms(page::limit(query.limit)?).await?;
    Ok(Json(contract::StormList {
        storms: storms.into_iter().map(contract::Storm::of).collect(),
    }))
}

/// Reopens the rejected payments of a refusal storm, each with a new slot.
///
/// Reopens only payments whose attempts were all definitely refused. They wait while the lane is paused.
#[utoipa::path(
    post, path = "/admin/storms/{storm}/reopen", operation_id = "reopenStorm", tag = "lanes",
    params(("storm" = i64, Path, description = "Number of the refusal storm.", example = 1)),
    request_body = contract::ReopenRequest,
    responses((status = 200, description = "The payments that were reopened, or would be.", body = contract::ReopenedStorm), Changes),
)]
async fn reopen(
    State(app): State<App>,
    caller: Caller,
    Path(storm): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::ReopenedStorm>, ApiError> {
    let request: contract::ReopenRequest = parse(&headers, body)?;
    let author = if request.preview {
        None
    } else {
        Some(author(&caller, request.reason)?)
    };
    let missing = || ApiError::not_found(format!("there is no refusal storm {storm}"));
    let id = StormId(storm.parse().map_err(|_| missing())?);
    app.store.storm(id).await?.ok_or_else(missing)?;
    let is_act = author.is_some();
    let reopened = reopen_all(&app, id, author).await?;
    if is_act {
        app.acted(caller.name(), "refusal storm reopened", &storm);
    }
    Ok(Json(reopened))
}

/// Page by page, in the order of the sends.
async fn reopen_all(
    app: &App,
    storm: StormId,
    author: Option<Author>,
) -> Result<contract::ReopenedStorm, ApiError> {
    let mut found = StormPayments::default();
    let mut after = None;
    let complete = loop {
        let page = app
            .store
            .refused_in(storm, &payments::item_type(), after, AT_ONCE)
            .await?;
        for refused in page.items {
            let kept = reopen_one(app, &refused.id, author.as_ref()).await?;
            found.add(&refused, kept);
        }
        after = page.next;
        if after.is_none() || found.looked_at >= MOST_REOPENED {
            break after.is_none();
        }
    };
    Ok(found.response(storm, author.is_none(), complete))
}

/// Why it stays rejected; without an author nothing is changed.
async fn reopen_one(
    app: &App,
    id: &ItemId,
    author: Option<&Author>,
) -> Result<Option<String>, ApiError> {
    let item = payments::item(id);
    let Some(view) = app.store.item(&item).await? else {
        return Ok(Some("it no longer exists".to_owned()));
    };
    let kept = payments::refuses_reopen(&view);
    let (Some(author), None) = (author, &kept) else {
        return Ok(kept);
    };
    let now = app.store.now().await?;
    let done = app
        .store
        .reopen(&item, payments::reopened(), now, author.clone())
        .await?;
    Ok(match done {
        ActionResult::Yes => None,
        ActionResult::NoSuchItem => Some("it no longer exists".to_owned()),
        ActionResult::Refused(why) => Some(why),
    })
}

#[derive(Debug, Default)]
struct StormPayments {
    looked_at: usize,
    reopened: u64,
    sums: BTreeMap<&'static str, Money>,
    kept: u64,
    kept_because: BTreeMap<String, String>,
}

impl StormPayments {
    fn add(&mut self, refused: &RefusedItem, kept: Option<String>) {
        self.looked_at += 1;
        let Some(why) = kept else {
            let Money { minor, currency } = refused.money;
            let nothing = Money { minor: 0, currency };
            let sum = self.sums.entry(currency.code()).or_insert(nothing);
            sum.minor = sum.minor.saturating_add(minor);
            self.reopened += 1;
            return;
        };
        self.kept += 1;
        if self.kept_because.len() < MOST_KEPT_SHOWN {
            self.kept_because.insert(refused.id.to_string(), why);
        }
    }

    fn response(self, storm: StormId, preview: bool, complete: bool) -> contract::ReopenedStorm {
        let amounts = self
            .sums
            .iter()
            .map(|(code, sum)| ((*code).to_owned(), sum.decimal()));
        contract::ReopenedStorm {
            storm: storm.0,
            preview,
            reopened: self.reopened,
            amounts: amounts.collect(),
            kept: self.kept,
            kept_because: self.kept_because,
            complete,
        }
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(reopen))
}
