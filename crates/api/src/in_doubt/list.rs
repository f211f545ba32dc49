//! The worklist of what nobody knows the outcome of: `GET /admin/in-doubt`.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::money::{Currency, Money};
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{AtRisk, ByTime, DoubtOrder, ItemView, Page, PageFrom};
use tollgate_domains::payments;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::of_money;
use crate::App;
use crate::answer::error::ApiError;
use crate::answer::export::{Format, List, rows};
use crate::answer::of::Of;
use crate::answer::sight::Sight;
use crate::contract::refusals::Finds;
use crate::contract::words;
use crate::door::auth::Caller;
use crate::request::body::{after_id, wrong};
use crate::request::extract::Query;
use crate::request::page::{page_from, page_token};

const PAGE: u32 = 100;

#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// `PAYMENT` or `INVOICE`. Default: `PAYMENT`.
    #[serde(rename = "type")]
    #[param(example = "PAYMENT")]
    item_type: Option<String>,
    /// What comes first. `newest` (default) and `oldest`: by the time since when it is in doubt. `largest` needs a
    /// currency. `id`: sorted by id.
    #[param(schema_with = words::doubt_order)]
    order: Option<String>,
    /// Required with `order=largest`, and only allowed there: amounts in different currencies
    /// cannot be compared.
    #[param(pattern = "^[A-Z]{3}$")]
    currency: Option<String>,
    /// Page token: the `next` of a page.
    #[param(max_length = 160)]
    after: Option<String>,
    /// Page token: the `previous` of a page. Not with `order=id`.
    #[param(max_length = 160)]
    before: Option<String>,
    /// `json`: one page. `csv` or `ndjson`: the whole list as a file.
    #[param(schema_with = words::list_format)]
    format: Option<String>,
}

impl Of<AtRisk> for contract::AtRisk {
    fn of(risk: AtRisk) -> Self {
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

impl Of<(ItemView, &Sight)> for contract::InDoubt {
    fn of((view, sight): (ItemView, &Sight)) -> Self {
        let of = |kind| {
            view.attempts
                .iter()
                .filter(move |attempt| attempt.kind == kind)
        };
        let lost = |kind| of(kind).filter(|attempt| attempt.state == AttemptState::Unknown);
        Self {
            first_sent: lost(AttemptKind::Send).map(|attempt| attempt.turn_at).min(),
            last_sent: of(AttemptKind::Send).map(|attempt| attempt.turn_at).max(),
            sends: view.sends(),
            questions: of(AttemptKind::Probe).count(),
            last_heard: view.attempts.last().map(|it| sight.text(&it.detail)),
            item_type: view.item.item_type.to_string(),
            amount: view.money.decimal(),
            currency: view.money.currency.code().to_owned(),
            lane: view.lane.to_string(),
            next_at: view.due,
            id: view.item.id.to_string(),
        }
    }
}

const IN_DOUBT: List = List {
    name: "in-doubt",
    columns: &[
        "itemType",
        "id",
        "amount",
        "currency",
        "lane",
        "firstSent",
        "lastSent",
        "sends",
        "questions",
        "lastHeard",
        "nextAt",
    ],
};

/// Items in doubt: sent, outcome unknown. Newest first. With `format`, exports the whole list as a file.
#[utoipa::path(
    get, path = "/admin/in-doubt", operation_id = "listInDoubt", tag = "worklists",
    params(ListQuery),
    responses(
        (status = 200, description = "One page, or the whole list.", content(
            (contract::InDoubtList = "application/json"),
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
        Some(name) => of_money(name)?,
        None => payments::item_type(),
    };
    if let Some(format) = Format::parse(query.format.as_deref())? {
        let page = move |query: ListQuery| {
            let (app, caller, item_type) = (app.clone(), caller.clone(), item_type.clone());
            async move {
                let page = app.doubts(&item_type, &query).await?;
                let lines = app.doubt_lines(&caller, &item_type, page.items).await?;
                let (after, before) = (page.next, None);
                let next = after.is_some().then_some(ListQuery {
                    after,
                    before,
                    ..query
                });
                Ok((rows(&lines)?, next))
            }
        };
        return IN_DOUBT.whole(format, query, page).await;
    }
    let page = app.doubts(&item_type, &query).await?;
    let items = app.doubt_lines(&caller, &item_type, page.items).await?;
    let at_risk = app.store.at_risk(&item_type).await?;
    Ok(Json(contract::InDoubtList {
        count: at_risk.iter().map(|risk| risk.count).sum(),
        at_risk: at_risk.into_iter().map(contract::AtRisk::of).collect(),
        items,
        next: page.next,
        previous: page.previous,
    })
    .into_response())
}

impl App {
    /// A page of ids, and where the ones beside it begin.
    async fn doubts(
        &self,
        item_type: &ItemType,
        query: &ListQuery,
    ) -> Result<Page<ItemId, String>, ApiError> {
        let Some(order) = order_in(query)? else {
            if query.before.is_some() {
                return Err(wrong("before", "is not allowed with order=id"));
            }
            let after = query.after.clone().map(after_id).transpose()?;
            let ids = self.store.in_doubt(item_type, after.as_ref(), PAGE).await?;
            let is_full = ids.len() == PAGE as usize;
            return Ok(Page {
                next: ids.last().filter(|_| is_full).map(ToString::to_string),
                items: ids,
                previous: None,
            });
        };
        let (after, before) = (query.after.as_deref(), query.before.as_deref());
        let from: PageFrom<_> = page_from(after, before, page_token)?;
        let page = self.store.in_doubt_by(item_type, order, from, PAGE).await?;
        Ok(Page {
            items: page.items,
            next: page.next.map(|next| next.to_string()),
            previous: page.previous.map(|previous| previous.to_string()),
        })
    }

    async fn doubt_lines(
        &self,
        caller: &Caller,
        item_type: &ItemType,
        ids: Vec<ItemId>,
    ) -> Result<Vec<contract::InDoubt>, ApiError> {
        let mut lines = vec![];
        for id in &ids {
            let view = self.store.item(&Item::new(item_type, id)).await?;
            lines.extend(view.map(|view| {
                let sight = Sight::on(caller, &view);
                contract::InDoubt::of((view, &sight))
            }));
        }
        Ok(lines)
    }
}

/// None is the order of ids.
fn order_in(query: &ListQuery) -> Result<Option<DoubtOrder>, ApiError> {
    let currency = query.currency.as_deref();
    match (query.order.as_deref().unwrap_or("newest"), currency) {
        ("id", None) => Ok(None),
        ("newest", None) => Ok(Some(DoubtOrder::ByTime(ByTime::Newest))),
        ("oldest", None) => Ok(Some(DoubtOrder::ByTime(ByTime::Oldest))),
        ("largest", Some(code)) => {
            let known = Currency::from_code(code);
            let known = known.ok_or_else(|| wrong("currency", "must be an ISO 4217 code"))?;
            let currency = known.code().to_owned();
            Ok(Some(DoubtOrder::Largest { currency }))
        }
        ("largest", None) => {
            let what = "is required: amounts in different currencies cannot be compared";
            Err(wrong("currency", what))
        }
        ("id" | "newest" | "oldest", Some(_)) => {
            Err(wrong("currency", "is only allowed with order=largest"))
        }
        _ => Err(wrong("order", "must be newest, oldest, largest or id")),
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(order: Option<&str>, currency: Option<&str>) -> Result<Option<DoubtOrder>, ()> {
        let query = ListQuery {
            order: order.map(str::to_owned),
            currency: currency.map(str::to_owned),
            ..ListQuery::default()
        };
        order_in(&query).map_err(drop)
    }

    #[test]
    fn an_order_by_amount_says_in_which_currency() {
        let by = |time| Ok(Some(DoubtOrder::ByTime(time)));
        let dollars = DoubtOrder::Largest {
            currency: "USD".to_owned(),
        };
        let table = [
            (None, None, by(ByTime::Newest)),
            (Some("id"), None, Ok(None)),
            (Some("newest"), None, by(ByTime::Newest)),
            (Some("oldest"), None, by(ByTime::Oldest)),
            (Some("largest"), Some("USD"), Ok(Some(dollars))),
            (Some("largest"), None, Err(())),
            (Some("largest"), Some("US\0"), Err(())),
            (Some("oldest"), Some("USD"), Err(())),
            (None, Some("USD"), Err(())),
            (Some("first"), None, Err(())),
        ];
        for (order, currency, expected) in table {
            assert_eq!(asked(order, currency), expected, "{order:?} {currency:?}");
        }
    }
}
