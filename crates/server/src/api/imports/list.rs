//! `GET /payments/bulk`: the files that were handed in, page by page.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate_core::Timestamp;
use tollgate_core::id::BulkId;
use tollgate_core::ports::{BulkLine, Counted, Page, PageToken};
use tollgate_domains::payments;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api::App;
use crate::api::answer::error::ApiError;
use crate::api::answer::export::{List, rows};
use crate::api::contract::refusals::Reads;
use crate::api::contract::words;
use crate::api::request::extract::Query;
use crate::api::request::page::{NewestFirst, PageRequest};

/// Imports, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BulkList)]
struct ListResponse {
    batches: Vec<LineResponse>,
    /// Page token: pass it as `after`. Null on the last page.
    next: Option<String>,
    /// Page token: pass it as `before`. Null on the first page.
    previous: Option<String>,
    /// Number of imports in the whole list, counted up to 10,000.
    count: u64,
    /// Whether there are more than `count`.
    at_least: bool,
}

/// One import of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BulkLine)]
struct LineResponse {
    #[schema(value_type = String)]
    batch_id: BulkId,
    /// Name of the file, if its sender gave one.
    file_name: Option<String>,
    /// Who imported it.
    actor: Option<String>,
    #[schema(schema_with = words::bulk_state)]
    state: &'static str,
    /// Number of non-blank lines. During the upload: so far.
    lines: u64,
    accepted: u64,
    duplicate: u64,
    rejected: u64,
    /// Start of the upload.
    opened_at: Timestamp,
    ended_at: Option<Timestamp>,
}

impl From<BulkLine> for LineResponse {
    fn from(line: BulkLine) -> Self {
        Self {
            batch_id: line.bulk,
            file_name: line.origin.file_name,
            actor: line.origin.actor,
            state: line.state.as_str(),
            lines: line.lines,
            accepted: line.accepted,
            duplicate: line.duplicate,
            rejected: line.rejected,
            opened_at: line.opened_at,
            ended_at: line.ended_at,
        }
    }
}

const IMPORTS: List = List {
    name: "imports",
    columns: &[
        "batchId",
        "fileName",
        "actor",
        "state",
        "lines",
        "accepted",
        "duplicate",
        "rejected",
        "openedAt",
        "endedAt",
    ],
};

/// Lists imports, newest first. Or exports the whole list as a file.
#[utoipa::path(
    get, path = "/payments/bulk", operation_id = "listBulks", tag = "imports",
    params(NewestFirst),
    responses(
        (status = 200, description = "One page, or the whole list.", content(
            (ListResponse = "application/json"),
            (String = "text/csv"),
            (String = "application/x-ndjson"),
        )),
        Reads,
    ),
)]
async fn list(
    State(app): State<App>,
    Query(query): Query<NewestFirst>,
) -> Result<Response, ApiError> {
    let asked = query.read()?;
    let Some(format) = asked.format else {
        let page = app.imports(&asked).await?;
        let length = app.length(Counted::Imports(payments::item_type())).await?;
        return Ok(Json(ListResponse {
            batches: page.items,
            next: page.next.map(|next| next.to_string()),
            previous: page.previous.map(|previous| previous.to_string()),
            count: length.count,
            at_least: length.at_least,
        })
        .into_response());
    };
    let page = move |asked: PageRequest| {
        let app = app.clone();
        async move {
            let page = app.imports(&asked).await?;
            Ok((rows(&page.items)?, asked.on(page.next)))
        }
    };
    IMPORTS.whole(format, asked, page).await
}

impl App {
    async fn imports(
        &self,
        asked: &PageRequest,
    ) -> Result<Page<LineResponse, PageToken>, ApiError> {
        let (kind, from) = (payments::item_type(), asked.from.clone());
        let page = self.store.bulks(&kind, from, asked.limit).await?;
        Ok(page.map(LineResponse::from))
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}
