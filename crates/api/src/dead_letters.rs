//! `/admin/dead-letters`: what the machine has given up.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::id::{Item, ItemType};
use tollgate_core::ports::{ActionResult, Counted, DeadLetter, Page, PageToken};
use tollgate_domains::archived::{archived, cannot_act};
use tollgate_domains::payments;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::payments::payment_id;
use crate::answer::codes::Code;
use crate::answer::error::ApiError;
use crate::answer::export::{List, rows};
use crate::answer::of::Of;
use crate::answer::sight::Sights;
use crate::contract::refusals::{Changes, Finds};
use crate::contract::words;
use crate::door::auth::Caller;
use crate::payments::changes::Because;
use crate::request::body::{Body, author, parse};
use crate::request::extract::{Path, Query};
use crate::request::page::PageRequest;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Item type. Default: `PAYMENT`.
    #[serde(rename = "type")]
    #[param(example = "PAYMENT")]
    item_type: Option<String>,
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

impl Of<(&ItemType, DeadLetter, &Sights)> for contract::DeadLetter {
    fn of((item_type, letter, sights): (&ItemType, DeadLetter, &Sights)) -> Self {
        let item = Item::new(item_type, &letter.id);
        let hidden = |text| sights.text(Some(&item), text);
        Self {
            last_error: letter.last_error.map(hidden),
            item_type: item_type.to_string(),
            id: letter.id.to_string(),
            status: letter.status,
            amount: letter.money.decimal(),
            currency: letter.money.currency.code().to_owned(),
            lane: letter.lane.to_string(),
            run: letter.run,
            retry_count: letter.retry_count,
            due: letter.due,
        }
    }
}

const LETTERS: List = List {
    name: "dead-letters",
    columns: &[
        "itemType",
        "id",
        "status",
        "amount",
        "currency",
        "lane",
        "run",
        "retryCount",
        "lastError",
        "due",
    ],
};

/// Dead letters: items that Tollgate has given up. Newest due time first. With `format`, exports the whole list as a file.
#[utoipa::path(
    get, path = "/admin/dead-letters", operation_id = "listDeadLetters", tag = "worklists",
    params(ListQuery),
    responses(
        (status = 200, description = "One page, or the whole list.", content(
            (contract::DeadLetterList = "application/json"),
            (String = "text/csv"),
            (String = "application/x-ndjson"),
        )),
        Finds,
    ),
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Response, ApiError> {
    let item_type = match &query.item_type {
        Some(name) => App::item_type_named(name)?,
        None => payments::item_type(),
    };
    let asked = query.read()?;
    let Some(format) = asked.format else {
        let page = app.letters(&caller, &item_type, &asked).await?;
        let length = app.length(Counted::Dead(item_type)).await?;
        return Ok(Json(contract::DeadLetterList {
            dead_letters: page.items,
            next: page.next.map(|next| next.to_string()),
            previous: page.previous.map(|previous| previous.to_string()),
            count: length.count,
            at_least: length.at_least,
        })
        .into_response());
    };
    let page = move |asked: PageRequest| {
        let (app, caller, item_type) = (app.clone(), caller.clone(), item_type.clone());
        async move {
            let page = app.letters(&caller, &item_type, &asked).await?;
            Ok((rows(&page.items)?, asked.on(page.next)))
        }
    };
    LETTERS.whole(format, asked, page).await
}

impl ListQuery {
    fn read(&self) -> Result<PageRequest, ApiError> {
        let (after, before) = (self.after.as_deref(), self.before.as_deref());
        PageRequest::read(after, before, self.limit, self.format.as_deref())
    }
}

impl App {
    async fn letters(
        &self,
        caller: &Caller,
        item_type: &ItemType,
        asked: &PageRequest,
    ) -> Result<Page<contract::DeadLetter, PageToken>, ApiError> {
        let from = asked.from.clone();
        let page = self.store.dead_letters(item_type, from, asked.limit);
        let page = page.await?;
        let letters = page.items.iter();
        let items: Vec<Item> = letters.map(|it| Item::new(item_type, &it.id)).collect();
        let sights = Sights::of(self, caller, items.iter()).await?;
        Ok(page.map(|letter| contract::DeadLetter::of((item_type, letter, &sights))))
    }
}

/// Replays a dead letter: executes it again now, as its next run.
#[utoipa::path(
    post, path = "/admin/dead-letters/{item_type}/{id}/replay", operation_id = "replayDeadLetter",
    tag = "worklists",
    params(
        ("item_type" = String, Path, description = "`PAYMENT`, `INVOICE` or `NOTIFICATION`.", example = "PAYMENT"),
        ("id" = String, Path, description = "The item's id.", example = "pay_001"),
    ),
    request_body = Because,
    responses((status = 200, description = "The item is queued again.", body = contract::Replayed), Changes),
)]
async fn replay(
    State(app): State<App>,
    caller: Caller,
    Path((item_type, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Replayed>, ApiError> {
    let item_type = App::item_type_named(&item_type)?;
    let author = author(&caller, parse::<Because>(&headers, body)?.reason)?;
    let item = Item::new(&item_type, &payment_id(&id)?);
    let missing = || ApiError::not_found(format!("there is no {item}"));
    match app.store.replay(&item, author).await? {
        ActionResult::Yes => {
            app.acted(caller.name(), "replayed", &item.to_string());
            let view = app.store.item(&item).await?.ok_or_else(missing)?;
            Ok(Json(contract::Replayed {
                item_type: item_type.to_string(),
                id: item.id.to_string(),
                status: view.status,
                queue_status: view.queue_status.to_string(),
                run: view.run,
            }))
        }
        ActionResult::NoSuchItem => {
            let known = archived(&*app.store, &item, "").await?;
            let refused = known.map(|known| {
                let why = cannot_act(&known);
                let error = format!("{item} cannot be replayed: {why}");
                ApiError::conflict(error).coded(Code::Archived)
            });
            Err(refused.unwrap_or_else(missing))
        }
        ActionResult::Refused(why) => Err(ApiError::conflict(format!(
            "{item} cannot be replayed: {why}"
        ))),
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(replay))
}
