//! `GET /payments/bulk`: the files that were handed in, page by page.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use tollgate_core::Timestamp;
use tollgate_core::id::BulkId;
use tollgate_core::ports::BulkLine;
use tollgate_domains::payments;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::error::ApiError;
use super::extract::Query;
use super::page::NewestFirst;
use super::refusals::Reads;
use super::{App, words};

/// Imports, newest first.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BulkList)]
struct ListResponse {
    batches: Vec<LineResponse>,
    /// Page token: pass it as `after`. Null on the last page.
    next: Option<String>,
}

/// One import of a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BulkLine)]
struct LineResponse {
    #[schema(value_type = String)]
    batch_id: BulkId,
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

/// Lists imports, paged.
#[utoipa::path(
    get, path = "/payments/bulk", operation_id = "listBulks", tag = "imports",
    params(NewestFirst),
    responses((status = 200, description = "One page, newest first.", body = ListResponse), Reads),
)]
async fn list(
    State(app): State<App>,
    Query(query): Query<NewestFirst>,
) -> Result<Json<ListResponse>, ApiError> {
    let (after, limit) = query.read()?;
    let page = app
        .store
        .bulks(&payments::item_type(), after, limit)
        .await?;
    Ok(Json(ListResponse {
        batches: page.items.into_iter().map(LineResponse::from).collect(),
        next: page.next.map(|next| next.to_string()),
    }))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list))
}
