//! `GET /admin/archive/{day}/items` and `/audit`: what one day of the archive holds, item by item, and its audit trail.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::archive::{ArchivedItem, DayState};
use tollgate_core::id::{ItemId, ItemType};
use tollgate_core::money::Money;
use tollgate_domains::payments::{self, Sought};
use tollgate_operations::archive::TypeDay;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{day, nothing_on, types};
use crate::App;
use crate::answer::error::{ApiError, internal};
use crate::answer::of::Of;
use crate::answer::sight::Sights;
use crate::answer::source::Source;
use crate::contract::refusals::Finds;
use crate::door::auth::Caller;
use crate::request::body::{after_id, wrong};
use crate::request::extract::{Path, Query};
use crate::request::page;

/// So many lines are read at once, and so often for one page.
const LINES_AT_ONCE: u32 = 500;
const MOST_LOOKS: u32 = 20;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ItemsQuery {
    /// Default: `PAYMENT`.
    #[param(example = "PAYMENT")]
    item_type: Option<String>,
    /// Only items that ended with this status.
    #[param(example = "PROCESSING")]
    status: Option<String>,
    /// Only payments to or from this account. Give the complete account number.
    #[param(max_length = 200)]
    account: Option<String>,
    /// Only payments with this reference.
    #[param(max_length = 200)]
    reference: Option<String>,
    /// Page token: the `next` of a page.
    after: Option<String>,
    /// Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

impl Of<ArchivedItem> for contract::ArchivedItemLine {
    fn of(item: ArchivedItem) -> Self {
        let money = Money {
            minor: item.amount_minor,
            currency: item.currency,
        };
        Self {
            amount: money.decimal(),
            currency: item.currency.code().to_owned(),
            attempts: item.attempts.len(),
            erased: item.content_hash.is_none(),
            id: item.id.to_string(),
            status: item.status,
            lane: item.lane.to_string(),
            created_at: item.created_at,
            finished_at: item.finished_at,
            deadline: item.deadline,
        }
    }
}

/// Lists the items of one day of the archive, in the order of their ids.
///
/// 410 (`archived`) with file and digest if the day is in files only: restore it first. With status, account or reference,
/// the search stops after 10,000 items: then `complete` is false and `next` continues it.
#[utoipa::path(
    get, path = "/admin/archive/{day}/items", operation_id = "listArchivedItems", tag = "archive",
    params(("day" = String, Path, description = "UTC day on which the items ended.", example = "2026-10-16"), ItemsQuery),
    responses((status = 200, description = "One page.", body = contract::ArchivedItemList), Finds),
)]
async fn items(
    State(app): State<App>,
    Path(of): Path<String>,
    Query(query): Query<ItemsQuery>,
) -> Result<Json<contract::ArchivedItemList>, ApiError> {
    let of = type_day(&of, query.item_type.clone())?;
    let source = app.day_source(&of).await?;
    let limit = page::limit(query.limit)?;
    let mut after = query.after.clone().map(after_id).transpose()?;
    let wanted = query.wanted(&of.item_type)?;
    let (mut found, mut is_over) = (vec![], false);
    for _ in 0..MOST_LOOKS {
        let lines = app.lines(&of, after.as_ref(), LINES_AT_ONCE).await?;
        is_over = lines.len() < LINES_AT_ONCE as usize;
        for item in lines {
            if found.len() >= limit as usize {
                is_over = false;
                break;
            }
            after = Some(item.id.clone());
            if wanted(&item) {
                found.push(contract::ArchivedItemLine::of(item));
            }
        }
        if is_over || found.len() >= limit as usize {
            break;
        }
    }
    Ok(Json(contract::ArchivedItemList {
        day: of.day.to_string(),
        item_type: of.item_type.to_string(),
        complete: is_over || found.len() >= limit as usize,
        items: found,
        next: after.filter(|_| !is_over).map(|id| id.to_string()),
        source: contract::AnswerSource::of(source),
    }))
}

impl ItemsQuery {
    fn wanted(
        self,
        item_type: &ItemType,
    ) -> Result<impl Fn(&ArchivedItem) -> bool + use<>, ApiError> {
        let asks_documents = self.account.is_some() || self.reference.is_some();
        if asks_documents && *item_type != payments::item_type() {
            let field = if self.account.is_some() {
                "account"
            } else {
                "reference"
            };
            return Err(wrong(field, "is only allowed with itemType=PAYMENT"));
        }
        Ok(move |item: &ArchivedItem| {
            let sought = Sought {
                account: self.account.as_deref(),
                reference: self.reference.as_deref(),
                gateway: None,
            };
            let body = item.body.as_deref().unwrap_or_default();
            self.status.as_ref().is_none_or(|it| *it == item.status)
                && (!asks_documents || sought.is_in(body))
        })
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct TrailQuery {
    /// Default: `PAYMENT`.
    #[param(example = "PAYMENT")]
    item_type: Option<String>,
    /// Page token: the `next` of a page.
    after: Option<String>,
    /// Page size in items. Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Audit entries about the items of one day of the archive, item by item.
///
/// 410 (`archived`) with file and digest if the day is in files only: restore it first.
#[utoipa::path(
    get, path = "/admin/archive/{day}/audit", operation_id = "listArchivedAudit", tag = "archive",
    params(("day" = String, Path, description = "UTC day on which the items ended.", example = "2026-10-16"), TrailQuery),
    responses((status = 200, description = "One page.", body = contract::ArchivedAudit), Finds),
)]
async fn trail(
    State(app): State<App>,
    caller: Caller,
    Path(of): Path<String>,
    Query(query): Query<TrailQuery>,
) -> Result<Json<contract::ArchivedAudit>, ApiError> {
    let of = type_day(&of, query.item_type)?;
    let source = app.day_source(&of).await?;
    let limit = page::limit(query.limit)?;
    let after = query.after.map(after_id).transpose()?;
    let items = app.lines(&of, after.as_ref(), limit).await?;
    let is_full = items.len() >= limit as usize;
    let last = items.last().filter(|_| is_full);
    let next = last.map(|item| item.id.to_string());
    let sights = Sights::of_archived(&caller, &items);
    let entries = items.iter().flat_map(ArchivedItem::audit_entries);
    Ok(Json(contract::ArchivedAudit {
        day: of.day.to_string(),
        item_type: of.item_type.to_string(),
        entries: entries
            .map(|it| contract::AuditEntry::of((it, &sights)))
            .collect(),
        next,
        source: contract::AnswerSource::of(source),
    }))
}

impl App {
    /// Of a day that the database has; an error with its file of one that it does not have.
    async fn day_source(&self, of: &TypeDay) -> Result<Source, ApiError> {
        let view = self.store.archived_day(&of.item_type, of.day).await?;
        let Some(view) = view else {
            return Err(nothing_on(&of.day.to_string()));
        };
        if view.state != DayState::Dropped {
            return Ok(Source::archive(view.restored_at.is_some()));
        }
        let (item_type, day) = (&of.item_type, of.day);
        let place = view.export.map_or_else(
            || "not in a known file".to_owned(),
            |export| {
                let (file, digest) = (export.file, export.digest);
                format!("in the archive file {file} (SHA-256 {digest})")
            },
        );
        Err(ApiError::gone(format!(
            "{item_type} of {day} is {place}; restore that day to list it"
        )))
    }

    async fn lines(
        &self,
        of: &TypeDay,
        after: Option<&ItemId>,
        limit: u32,
    ) -> Result<Vec<ArchivedItem>, ApiError> {
        let (item_type, day) = (&of.item_type, of.day);
        let lines = self.store.archived_lines(item_type, day, after, limit);
        let item = |line: &String| {
            serde_json::from_str(line)
                .map_err(|error| internal(&format!("a line of {of} is damaged: {error}")))
        };
        lines.await?.iter().map(item).collect()
    }
}

fn type_day(of: &str, item_type: Option<String>) -> Result<TypeDay, ApiError> {
    let day = day("day", of)?;
    let asked = item_type.unwrap_or_else(|| payments::item_type().to_string());
    let item_type = types(Some(asked))?.remove(0);
    Ok(TypeDay { item_type, day })
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(items))
        .routes(routes!(trail))
}
