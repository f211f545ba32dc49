//! `GET /admin/audit`: who did what, newest first.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::actor::Kind;
use tollgate_core::archive::{ArchiveDay, DayState};
use tollgate_core::audit_action;
use tollgate_core::id::{Item, ItemId, check_item_id};
use tollgate_core::ports::{AuditEntry, AuditWanted, Counted, Page, PageFrom};
use tollgate_domains::archived::{archived, in_a_file as in_a_file_only};
use tollgate_domains::payments;
use tollgate_operations::item_types;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::answer::error::ApiError;
use crate::answer::export::{Format, List, ROWS_AT_ONCE, rows};
use crate::answer::of::Of;
use crate::answer::sight::Sights;
use crate::answer::source::{Source, archived_days, mark};
use crate::contract::refusals::Finds;
use crate::contract::words;
use crate::door::auth::Caller;
use crate::request::body::wrong;
use crate::request::extract::Query;
use crate::request::page;
use crate::request::page::page_from;

/// A page looks so often for what no index serves, each time at a thousand entries.
const MOST_LOOKS: u32 = 20;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AuditQuery {
    /// Filter by item: `TYPE/ID`.
    #[param(
        pattern = "^[A-Za-z]+/[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$",
        example = "PAYMENT/pay_001"
    )]
    item: Option<String>,
    /// Filter by actor: a token's name, or a component such as `sender`.
    actor: Option<String>,
    /// Filter by event, such as `SETTING_CHANGED`.
    action: Option<String>,
    /// Filter by kind of actor: `people` or `machine`.
    #[param(schema_with = words::actor_kind)]
    by: Option<String>,
    /// Entries from this time on, such as `2026-11-16T16:00:00Z`.
    from: Option<String>,
    /// Entries before this time.
    to: Option<String>,
    /// Page token: returns entries older than the entry with this id.
    after: Option<i64>,
    /// Page token: returns entries newer than the entry with this id.
    before: Option<i64>,
    /// Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// `json`: one page. `csv` or `ndjson`: all entries as a file; `limit` does not apply.
    #[param(schema_with = words::list_format)]
    format: Option<String>,
}

impl Of<(AuditEntry, &Sights)> for contract::AuditEntry {
    fn of((entry, sights): (AuditEntry, &Sights)) -> Self {
        Self {
            detail: sights.text(entry.item.as_ref(), entry.detail),
            id: entry.id,
            at: entry.at,
            batch_id: entry.batch.map(|batch| batch.to_string()),
            item: entry.item.map(|item| item.to_string()),
            action: entry.action,
            status_before: entry.status_before,
            status_after: entry.status_after,
            actor: entry.actor,
        }
    }
}

const AUDIT: List = List {
    name: "audit",
    columns: &[
        "id",
        "at",
        "actor",
        "action",
        "item",
        "statusBefore",
        "statusAfter",
        "detail",
        "batchId",
    ],
};

/// The audit log, newest first. With `format`, returns all entries as a file.
///
/// The filters item, action, actor, people and time use an index. If several of them are combined, the search stops
/// after 20,000 entries: then `complete` is false and `next` continues it.
#[utoipa::path(
    get, path = "/admin/audit", operation_id = "listAudit", tag = "accounts",
    params(AuditQuery),
    responses(
        (status = 200, description = "One page, or all entries.", content(
            (contract::AuditLog = "application/json"),
            (String = "text/csv"),
            (String = "application/x-ndjson"),
        )),
        Finds,
    ),
)]
async fn audit(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<AuditQuery>,
) -> Result<Response, ApiError> {
    let format = Format::parse(query.format.as_deref())?;
    let wanted = query.wanted()?;
    app.known_action(wanted.action.as_deref()).await?;
    match format {
        Some(format) => {
            let (_, archived) = app.audit_source(&wanted).await?;
            let mut response = app.export_audit(caller, wanted, format).await?;
            mark(archived.as_ref(), &mut response);
            Ok(response)
        }
        None => Ok(Json(app.audit_told(&caller, wanted).await?).into_response()),
    }
}

impl AuditQuery {
    fn wanted(self) -> Result<AuditWanted, ApiError> {
        let by = self.by.as_deref().map(|by| {
            let known = Kind::parse(by);
            known.ok_or_else(|| wrong("by", "must be people or machine"))
        });
        let from = page_from(self.after, self.before, |_, entry| Ok(entry))?;
        Ok(AuditWanted {
            item: self.item.as_deref().map(item).transpose()?,
            actor: self.actor,
            action: self.action,
            by: by.transpose()?,
            from: self
                .from
                .as_deref()
                .map(|it| time("from", it))
                .transpose()?,
            to: self.to.as_deref().map(|it| time("to", it)).transpose()?,
            after: from.place().copied().filter(|_| !from.is_back()),
            before: from.place().copied().filter(|_| from.is_back()),
            limit: page::limit(self.limit)?,
        })
    }
}

impl App {
    async fn export_audit(
        self,
        caller: Caller,
        wanted: AuditWanted,
        format: Format,
    ) -> Result<Response, ApiError> {
        let first = AuditWanted {
            limit: ROWS_AT_ONCE,
            ..wanted
        };
        let page = move |wanted: AuditWanted| {
            let (app, caller) = (self.clone(), caller.clone());
            async move {
                let page = app.audit_page(wanted.clone()).await?;
                let after = page.next;
                let entries = app.entries_told(&caller, page.items).await?;
                let next = after.map(|_| AuditWanted {
                    after,
                    before: None,
                    ..wanted
                });
                Ok((rows(&entries)?, next))
            }
        };
        AUDIT.whole(format, first, page).await
    }

    async fn audit_told(
        &self,
        caller: &Caller,
        wanted: AuditWanted,
    ) -> Result<contract::AuditLog, ApiError> {
        let length = match wanted.counted() {
            Some(list) => Some(self.length(list).await?),
            None => None,
        };
        let (source, archived) = self.audit_source(&wanted).await?;
        let is_back = wanted.before.is_some();
        let limit = wanted.limit as usize;
        let page = self.audit_page(wanted).await?;
        let ahead = if is_back { page.previous } else { page.next };
        let complete = page.items.len() >= limit || ahead.is_none();
        let scanned_to = match ahead {
            Some(entry) if !complete => self.audit_time(entry).await?,
            Some(_) | None => None,
        };
        Ok(contract::AuditLog {
            entries: self.entries_told(caller, page.items).await?,
            next: page.next,
            previous: page.previous,
            count: length.map(|length| length.count),
            at_least: length.is_some_and(|length| length.at_least),
            complete,
            scanned_to,
            source: contract::AnswerSource::of(source),
            archived,
        })
    }

    /// The trail of an archived item is told with what the log has of it; a list of all entries has those of the log only.
    async fn audit_source(
        &self,
        wanted: &AuditWanted,
    ) -> Result<(Source, Option<contract::ArchivedPart>), ApiError> {
        if let Some(item) = &wanted.item {
            let view = self.store.item(item).await?;
            if view.is_some_and(|view| view.archived.is_some()) {
                return Ok((Source::BOTH, None));
            }
            let known = archived(&*self.store, item, "").await?;
            let in_a_file = known.filter(|known| known.state == DayState::Dropped);
            let part = in_a_file.map(|known| {
                let kind = item.item_type.as_str().to_lowercase();
                archived_days(
                    known.day,
                    known.day,
                    in_a_file_only(&kind, &item.id, &known),
                )
            });
            return Ok((Source::HOT, part));
        }
        let mut days = vec![];
        for (item_type, _) in item_types() {
            let found = self.store.found_in(&item_type, None, wanted.to).await?;
            days.extend(found.archive);
        }
        // An entry is written while its item is at work, on the day of its end at the latest.
        let is_asked = |last: &ArchiveDay| wanted.from.is_none_or(|from| from < last.end());
        let first = days.iter().map(|(first, _)| *first).min();
        let last = days.iter().map(|(_, last)| *last).max().filter(is_asked);
        let part = first.zip(last);
        let part = part.map(|(first, last)| {
            let days = format!("{first} to {last}");
            let what = format!(
                "Entries about archived items are not in this list: those items ended from {days}. Pass item=TYPE/ID, or list a day with tollgate archive audit DAY or GET /admin/archive/{{day}}/audit."
            );
            archived_days(first, last, what)
        });
        Ok((Source::HOT, part))
    }

    async fn entries_told(
        &self,
        caller: &Caller,
        entries: Vec<AuditEntry>,
    ) -> Result<Vec<contract::AuditEntry>, ApiError> {
        let items = entries.iter().filter_map(|entry| entry.item.as_ref());
        let sights = Sights::of(self, caller, items).await?;
        let told = |entry| contract::AuditEntry::of((entry, &sights));
        Ok(entries.into_iter().map(told).collect())
    }

    /// As much as was asked for, or what was found when the search has looked at enough; newest first.
    async fn audit_page(&self, wanted: AuditWanted) -> Result<Page<AuditEntry, i64>, ApiError> {
        let limit = wanted.limit;
        let from = match (wanted.after, wanted.before) {
            (_, Some(before)) => PageFrom::Before(before),
            (after, None) => PageFrom::from(after),
        };
        let mut wanted = wanted;
        let (mut items, mut next) = (vec![], None);
        for _ in 0..MOST_LOOKS {
            let page = self.store.audit_log(wanted.clone()).await?;
            items.extend(page.items);
            next = page.next;
            if from.is_back() {
                wanted.before = next;
            } else {
                wanted.after = next;
            }
            let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
            wanted.limit = limit.saturating_sub(count);
            if next.is_none() || wanted.limit == 0 {
                break;
            }
        }
        let page = Page {
            items,
            next,
            previous: None,
        };
        Ok(page.turned(&from, |entry| entry.id))
    }

    /// One that is neither ours nor in the log is misspelt: an empty list would hide that.
    async fn known_action(&self, action: Option<&str>) -> Result<(), ApiError> {
        let Some(action) = action else {
            return Ok(());
        };
        let is_recorded = async || {
            let entries = Counted::AuditOfAction(action.to_owned());
            let found = self.store.counted(entries, 1).await?;
            Ok::<_, ApiError>(found > 0)
        };
        let cannot_be = action.contains('\0');
        if audit_action::ALL.contains(&action) || (!cannot_be && is_recorded().await?) {
            return Ok(());
        }
        Err(ApiError::not_found(format!(
            "unknown event {action:?}; known: {}",
            audit_action::ALL.join(", ")
        )))
    }

    /// When the entry was written that a search has reached.
    async fn audit_time(&self, entry: i64) -> Result<Option<Timestamp>, ApiError> {
        let wanted = AuditWanted {
            after: Some(entry.saturating_add(1)),
            limit: 1,
            ..AuditWanted::default()
        };
        let page = self.store.audit_log(wanted).await?;
        Ok(page.items.first().map(|entry| entry.at))
    }
}

fn time(field: &str, text: &str) -> Result<Timestamp, ApiError> {
    let what = "must be a time such as \"2026-11-16T16:00:00Z\"";
    payments::parse_time(text).ok_or_else(|| wrong(field, what))
}

fn item(text: &str) -> Result<Item, ApiError> {
    let form = "must be TYPE/ID, such as PAYMENT/pay_001";
    let (item_type, id) = text.split_once('/').ok_or_else(|| wrong("item", form))?;
    let item_type = App::item_type_named(item_type).map_err(|_| {
        wrong(
            "item",
            format!("there is no item type \"{item_type}\"; it {form}"),
        )
    })?;
    check_item_id(id).map_err(|why| wrong("item", format!("its id {why}")))?;
    Ok(Item::new(&item_type, &ItemId::new(id)))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(audit))
}
