//! `GET /payments/bulk`: the files that were handed in, page by page.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use tollgate_contract as contract;
use tollgate_core::ports::{BulkLine, Counted, Page, PageToken};
use tollgate_domains::payments;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::App;
use crate::answer::error::ApiError;
use crate::answer::export::{List, rows};
use crate::answer::of::Of;
use crate::contract::refusals::Reads;
use crate::request::extract::Query;
use crate::request::page::{NewestFirst, PageRequest};

impl Of<BulkLine> for contract::BulkLine {
    fn of(line: BulkLine) -> Self {
        Self {
            batch_id: line.bulk.to_string(),
            file_name: line.origin.file_name,
            actor: line.origin.actor,
            state: line.state.as_str().to_owned(),
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

/// Lists imports, newest first. With `format`, exports the whole list as a file.
#[utoipa::path(
    get, path = "/payments/bulk", operation_id = "listBulks", tag = "imports",
    params(NewestFirst),
    responses(
        (status = 200, description = "One page, or the whole list.", content(
            (contract::BulkList = "application/json"),
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
        return Ok(Json(contract::BulkList {
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
    ) -> Result<Page<contract::BulkLine, PageToken>, ApiError> {
        let (kind, from) = (payments::item_type(), asked.from.clone());
        let page = self.store.bulks(&kind, from, asked.limit).await?;
        Ok(page.map(contract::BulkLine::of))
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}
