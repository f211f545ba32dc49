//! The worklist of what is held: `GET /admin/held`.

use std::collections::HashSet;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{
    ByTime, HeldItem, MOST_LOOKED_AT, Page, PageFrom, PageToken, split_rules,
};
use tollgate_domains::payments::{self, Sought};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::answer::error::ApiError;
use crate::answer::export::{List, rows};
use crate::answer::of::Of;
use crate::answer::sight::Sights;
use crate::contract::refusals::Finds;
use crate::contract::words;
use crate::door::auth::Caller;
use crate::payments::search::MOST_LOOKS;
use crate::request::body::wrong;
use crate::request::extract::Query;
use crate::request::page::PageRequest;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct HeldQuery {
    /// `PAYMENT` or `INVOICE`. Default: `PAYMENT`.
    #[serde(rename = "type")]
    #[param(example = "PAYMENT")]
    item_type: Option<String>,
    /// Filter by gateway: the one chosen when the payment was accepted.
    #[param(max_length = 200)]
    gateway: Option<String>,
    /// `newest` (default): newest due time first. `due`: what was due first comes first.
    #[param(schema_with = words::held_order)]
    order: Option<String>,
    /// Page token: the `next` of a page.
    #[param(schema_with = words::page_token)]
    after: Option<String>,
    /// Page token: the `previous` of a page.
    #[param(schema_with = words::page_token)]
    before: Option<String>,
    /// Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// `json`: one page. `csv` or `ndjson`: the whole list as a file; `limit` does not apply.
    #[param(schema_with = words::list_format)]
    format: Option<String>,
}

const HELD: List = List {
    name: "held",
    columns: &[
        "itemType", "id", "amount", "currency", "lane", "due", "deadline", "rules", "why",
    ],
};

/// What is asked for, page by page.
#[derive(Clone)]
struct Wanted {
    item_type: ItemType,
    gateway: Option<String>,
    order: ByTime,
    asked: PageRequest,
}

/// A page, and how far the search for it went if it stopped early.
struct HeldPage {
    page: Page<HeldItem, PageToken>,
    scanned_to: Option<Timestamp>,
}

/// Held items: not sent, because they missed their deadline or a rule holds them. Newest due time first. With `format`, exports the
/// whole list as a file.
///
/// With a gateway, the search stops after 20,000 held items: then `complete` is false and `next` continues it.
#[utoipa::path(
    get, path = "/admin/held", operation_id = "listHeld", tag = "worklists",
    params(HeldQuery),
    responses(
        (status = 200, description = "One page, or the whole list.", content(
            (contract::HeldList = "application/json"),
            (String = "text/csv"),
            (String = "application/x-ndjson"),
        )),
        Finds,
    ),
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<HeldQuery>,
) -> Result<Response, ApiError> {
    let wanted = query.wanted(&app)?;
    if let Some(format) = wanted.asked.format {
        let page = move |wanted: Wanted| {
            let (app, caller) = (app.clone(), caller.clone());
            async move {
                let found = app.held_page(&wanted).await?;
                let lines = app.held_lines(&caller, &wanted, found.page.items).await?;
                let on = wanted.asked.on(found.page.next);
                Ok((rows(&lines)?, on.map(|asked| Wanted { asked, ..wanted })))
            }
        };
        return HELD.whole(format, wanted, page).await;
    }
    let HeldPage { page, scanned_to } = app.held_page(&wanted).await?;
    let sum = app.store.held_sum(&wanted.item_type).await?;
    Ok(Json(contract::HeldList {
        count: sum.count,
        at_least: sum.is_capped,
        amounts: sum.amounts.iter().map(contract::NeedAmount::of).collect(),
        next: page.next.map(|next| next.to_string()),
        previous: page.previous.map(|previous| previous.to_string()),
        items: app.held_lines(&caller, &wanted, page.items).await?,
        complete: scanned_to.is_none(),
        scanned_to,
    })
    .into_response())
}

impl HeldQuery {
    fn wanted(&self, app: &App) -> Result<Wanted, ApiError> {
        let item_type = match &self.item_type {
            Some(name) => App::item_type_named(name)?,
            None => payments::item_type(),
        };
        if let Some(gateway) = &self.gateway {
            if item_type != payments::item_type() {
                return Err(wrong("gateway", "selects payments only"));
            }
            app.gateway_named(gateway)?;
        }
        let order = match self.order.as_deref() {
            None | Some("newest") => ByTime::Newest,
            Some("due") => ByTime::Oldest,
            Some(_) => return Err(wrong("order", "must be newest or due")),
        };
        let (after, before) = (self.after.as_deref(), self.before.as_deref());
        Ok(Wanted {
            item_type,
            gateway: self.gateway.clone(),
            order,
            asked: PageRequest::read(after, before, self.limit, self.format.as_deref())?,
        })
    }
}

fn place(held: &HeldItem) -> PageToken {
    PageToken::new(held.due.as_microsecond(), &held.id)
}

impl App {
    async fn held_page(&self, wanted: &Wanted) -> Result<HeldPage, ApiError> {
        let (kind, asked) = (&wanted.item_type, &wanted.asked);
        let Some(gateway) = &wanted.gateway else {
            let from = asked.from.clone();
            let page = self.store.held(kind, wanted.order, from, asked.limit);
            return Ok(HeldPage {
                page: page.await?,
                scanned_to: None,
            });
        };
        let (most, is_back) = (asked.limit as usize, asked.from.is_back());
        let mut found: Vec<HeldItem> = vec![];
        let mut from = Some(asked.from.clone());
        for _ in 0..MOST_LOOKS {
            let Some(here) = from.take_if(|_| found.len() <= most) else {
                break;
            };
            let look = self.store.held(kind, wanted.order, here, MOST_LOOKED_AT);
            let mut look = look.await?;
            let on = if is_back {
                look.items.reverse();
                look.previous.map(PageFrom::Before)
            } else {
                look.next.map(PageFrom::After)
            };
            found.extend(self.through(gateway, look.items).await?);
            from = on;
        }
        Ok(cut(found, from, asked))
    }

    /// Those of a gateway, as their bodies say.
    async fn through(&self, gateway: &str, held: Vec<HeldItem>) -> Result<Vec<HeldItem>, ApiError> {
        let items: Vec<Item> = held.iter().map(|it| payments::item(&it.id)).collect();
        let bodies = self.store.bodies(&items).await?;
        let sought = Sought {
            gateway: Some(gateway),
            ..Sought::default()
        };
        let is_in = |body: &Option<String>| body.as_deref().is_some_and(|it| sought.is_in(it));
        let wanted: HashSet<ItemId> = items
            .into_iter()
            .zip(&bodies)
            .filter_map(|(item, body)| is_in(body).then_some(item.id))
            .collect();
        let held = held.into_iter();
        Ok(held.filter(|it| wanted.contains(&it.id)).collect())
    }

    async fn held_lines(
        &self,
        caller: &Caller,
        wanted: &Wanted,
        held: Vec<HeldItem>,
    ) -> Result<Vec<contract::Held>, ApiError> {
        let kind = &wanted.item_type;
        let items: Vec<Item> = held.iter().map(|it| Item::new(kind, &it.id)).collect();
        let sights = Sights::of(self, caller, items.iter()).await?;
        let line = |(held, item): (HeldItem, &Item)| contract::Held {
            item_type: kind.to_string(),
            amount: held.money.decimal(),
            currency: held.money.currency.code().to_owned(),
            lane: held.lane.to_string(),
            due: held.due,
            deadline: held.deadline,
            rules: split_rules(held.rules.as_deref()),
            why: held.why.map(|why| sights.text(Some(item), why)),
            id: held.id.to_string(),
        };
        Ok(held.into_iter().zip(&items).map(line).collect())
    }
}

/// The page of what was found, nearest first; `on` is where the search would go on.
fn cut(mut found: Vec<HeldItem>, on: Option<PageFrom<PageToken>>, asked: &PageRequest) -> HeldPage {
    let most = asked.limit as usize;
    let on = on.and_then(|from| from.place().cloned());
    let is_full = found.len() > most;
    found.truncate(most);
    let stopped = on.filter(|_| !is_full);
    let scanned_to = stopped
        .as_ref()
        .and_then(|place| Timestamp::from_microsecond(place.rank).ok());
    let next = if is_full {
        found.last().map(place)
    } else {
        stopped
    };
    let page = Page {
        items: found,
        next,
        previous: None,
    };
    HeldPage {
        page: page.turned(&asked.from, place),
        scanned_to,
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}
