//! `GET /invoices`: page by page, by status or customer.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::id::check_item_id;
use tollgate_core::ports::{ListKey, PageFrom, RecordLine, RecordsWanted};
use tollgate_domains::invoices::{self, InvoiceStatus};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::newest::Newest;
use crate::App;
use crate::answer::error::ApiError;
use crate::answer::export::{Format, List, ROWS_AT_ONCE, rows};
use crate::answer::of::Of;
use crate::answer::source::{Source, mark, may_have_ended};
use crate::contract::refusals::Finds;
use crate::contract::words;
use crate::payments::list::{BY_ID, NEWEST};
use crate::request::body::{after_id, wrong};
use crate::request::extract::Query;
use crate::request::page;
use crate::request::page::{page_from, page_token};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// Only those with this status.
    #[param(schema_with = words::invoice_status)]
    status: Option<String>,
    /// Only those of this customer.
    #[param(schema_with = words::id)]
    customer: Option<String>,
    /// `newest` (default): newest first. `id`: sorted by id, the default with `csv` and `ndjson`.
    #[param(schema_with = words::list_order)]
    order: Option<String>,
    /// Page token: the `next` of a page.
    #[param(schema_with = words::page_token_or_id)]
    after: Option<String>,
    /// Page token: the `previous` of a page. Not with `order=id`.
    #[param(schema_with = words::page_token_or_id)]
    before: Option<String>,
    /// Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// `json`: one page. `csv` or `ndjson`: the whole list as a file, sorted by id; `limit` does not apply.
    #[param(schema_with = words::list_format)]
    format: Option<String>,
}

impl Of<RecordLine> for contract::InvoiceLine {
    fn of(line: RecordLine) -> Self {
        Self {
            invoice_id: line.id.to_string(),
            status: line.status,
            amount: contract::Amount::of(line.money),
            queue_status: line.queue_status.to_string(),
            run: line.run,
            scheduled_time: line.slot,
            created_at: line.created_at,
        }
    }
}

const INVOICES: List = List {
    name: "invoices",
    columns: &[
        "invoiceId",
        "status",
        "amount.value",
        "amount.currency",
        "queueStatus",
        "run",
        "scheduledTime",
        "createdAt",
    ],
};

/// Lists invoices, newest first. With `format`, exports the whole list as a file.
///
/// The filters status and customer use an index; with up to 10,000 matches the page is exact. With more matches of a
/// status, the search stops after 20,000: then `complete` is false and `next` continues it. A customer with more needs
/// `order=id`. Archived invoices are not listed here; `archived`, or the header `tollgate-archived` of a file, says so.
#[utoipa::path(
    get, path = "/invoices", operation_id = "listInvoices", tag = "invoices",
    params(ListQuery),
    responses(
        (status = 200, description = "One page, or the whole list.", content(
            (contract::InvoiceList = "application/json"),
            (String = "text/csv"),
            (String = "application/x-ndjson"),
        )),
        Finds,
    ),
)]
async fn list(
    State(app): State<App>,
    Query(query): Query<ListQuery>,
) -> Result<Response, ApiError> {
    let format = Format::parse(query.format.as_deref())?;
    let wanted = query.wanted(&app).await?;
    let archived = if may_have_ended(wanted.status.as_deref()) {
        let of = (&invoices::item_type(), "invoices");
        app.archived_part(of, None, None).await?
    } else {
        None
    };
    if let Some(format) = format {
        let first = RecordsWanted {
            limit: ROWS_AT_ONCE,
            ..wanted
        };
        let page = move |wanted: RecordsWanted| {
            let app = app.clone();
            async move {
                let page = app.store.records(wanted.clone()).await?;
                let page = page.map(contract::InvoiceLine::of);
                let after = page.next;
                let next = after.is_some().then_some(RecordsWanted { after, ..wanted });
                Ok((rows(&page.items)?, next))
            }
        };
        let mut response = INVOICES.whole(format, first, page).await?;
        mark(archived.as_ref(), &mut response);
        return Ok(response);
    }
    let answer = if query.is_by_id() {
        app.invoices_by_id(wanted).await?
    } else {
        app.invoices_by_time(wanted, query.place()?).await?
    };
    Ok(Json(contract::InvoiceList { archived, ..answer }).into_response())
}

impl App {
    async fn invoices_by_id(
        &self,
        wanted: RecordsWanted,
    ) -> Result<contract::InvoiceList, ApiError> {
        let page = self.store.records(wanted).await?;
        Ok(contract::InvoiceList {
            invoices: page
                .items
                .into_iter()
                .map(contract::InvoiceLine::of)
                .collect(),
            order: BY_ID.to_owned(),
            next: page.next.map(|next| next.to_string()),
            previous: None,
            complete: true,
            scanned_to: None,
            count: None,
            at_least: false,
            source: contract::AnswerSource::of(Source::HOT),
            archived: None,
        })
    }

    async fn invoices_by_time(
        &self,
        wanted: RecordsWanted,
        from: PageFrom<ListKey>,
    ) -> Result<contract::InvoiceList, ApiError> {
        let found = self.newest_invoices(&Newest { wanted, from }).await?;
        let token = |key: ListKey| key.page_token().to_string();
        let lines = found.page.items.into_iter().map(contract::InvoiceLine::of);
        Ok(contract::InvoiceList {
            invoices: lines.collect(),
            order: NEWEST.to_owned(),
            next: found.page.next.map(token),
            previous: found.page.previous.map(token),
            complete: found.scanned_to.is_none(),
            scanned_to: found.scanned_to,
            count: found.length.map(|length| length.count),
            at_least: found.length.is_some_and(|length| length.at_least),
            source: contract::AnswerSource::of(Source::HOT),
            archived: None,
        })
    }
}

impl ListQuery {
    fn is_by_id(&self) -> bool {
        let order = self.order.as_deref();
        order == Some(BY_ID) || (order.is_none() && self.format.is_some())
    }

    async fn wanted(&self, app: &App) -> Result<RecordsWanted, ApiError> {
        match self.order.as_deref() {
            Some(NEWEST) if self.format.is_some() => {
                return Err(wrong("order", "must be id with csv and ndjson"));
            }
            None | Some(NEWEST | BY_ID) => {}
            Some(_) => return Err(wrong("order", "must be newest or id")),
        }
        if self.is_by_id() && self.before.is_some() {
            return Err(wrong("before", "is not allowed with order=id"));
        }
        let owner = self.customer.clone().map(customer).transpose()?;
        if let Some(owner) = &owner {
            let found = app.billing.customers().get(owner).await?;
            let missing = || ApiError::not_found(format!("there is no customer {owner}"));
            found.ok_or_else(missing)?;
        }
        let after = self.after.clone().filter(|_| self.is_by_id());
        Ok(RecordsWanted {
            status: self.status.clone().map(known).transpose()?,
            owner,
            after: after.map(after_id).transpose()?,
            ..RecordsWanted::all(invoices::item_type(), page::limit(self.limit)?)
        })
    }

    fn place(&self) -> Result<PageFrom<ListKey>, ApiError> {
        let (after, before) = (self.after.as_deref(), self.before.as_deref());
        page_from(after, before, |field, token| {
            let what = "must be a page token of the same list, unchanged";
            let key = ListKey::at_page_token(&page_token(field, token)?);
            key.ok_or_else(|| wrong(field, what))
        })
    }
}

fn customer(id: String) -> Result<String, ApiError> {
    match check_item_id(&id) {
        Ok(()) => Ok(id),
        Err(why) => Err(wrong("customer", why)),
    }
}

fn known(status: String) -> Result<String, ApiError> {
    let all = InvoiceStatus::ALL.map(InvoiceStatus::as_str);
    if all.contains(&status.as_str()) {
        return Ok(status);
    }
    Err(wrong(
        "status",
        format!("must be one of {}", all.join(", ")),
    ))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}
