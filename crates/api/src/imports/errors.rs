//! `GET /payments/bulk/{batchId}/errors`: the rejected lines of an import, with what is wrong, or as they were.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;
use tollgate_contract as contract;
use tollgate_core::id::BulkId;
use tollgate_core::ports::LineError;
use utoipa::IntoParams;

use super::views::found;
use crate::App;
use crate::answer::error::ApiError;
use crate::answer::export::{Format, List, ROWS_AT_ONCE, Row};
use crate::answer::of::Of;
use crate::contract::refusals::Finds;
use crate::contract::words;
use crate::door::auth::Caller;
use crate::request::body::wrong;
use crate::request::extract::{Path, Query};

const PAGE: u32 = 100;
const MOST_PER_PAGE: u32 = 1000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// Page token: the last line number of the previous page.
    #[serde(default)]
    after: u64,
    /// Default: 100, maximum: 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// `json`: one page. `csv` or `ndjson`: all errors as a file; `limit` does not apply. `lines`: the rejected lines
    /// themselves, as NDJSON to correct and import again; needs the role `operate`.
    #[param(schema_with = words::rejected_format)]
    format: Option<String>,
}

impl Of<LineError> for contract::BulkLineError {
    fn of(error: LineError) -> Self {
        Self {
            line: error.line,
            payment_id: error.id,
            details: error.details,
        }
    }
}

const REJECTED: List = List {
    name: "rejected",
    columns: &["line", "paymentId", "error"],
};

/// Rejected lines of an import, by line number. With `format`, returns all of them as a file.
#[utoipa::path(
    get, path = "/payments/bulk/{batch}/errors", operation_id = "listBulkErrors", tag = "imports",
    params(("batch" = String, Path, description = "The `batchId` of the upload."), Page),
    responses(
        (status = 200, description = "One page, or all rejected lines.", content(
            (contract::BulkErrors = "application/json"),
            (String = "text/csv"),
            (String = "application/x-ndjson"),
        )),
        Finds,
    ),
)]
pub(super) async fn errors(
    State(app): State<App>,
    caller: Caller,
    Path(batch): Path<String>,
    Query(page): Query<Page>,
) -> Result<Response, ApiError> {
    let limit = page.limit.unwrap_or(PAGE);
    if !(1..=MOST_PER_PAGE).contains(&limit) {
        return Err(wrong("limit", format!("must be from 1 to {MOST_PER_PAGE}")));
    }
    if page.format.as_deref() == Some("lines") {
        return corrected(app, &caller, &batch, page.after).await;
    }
    let format = Format::parse(page.format.as_deref())
        .map_err(|_| wrong("format", "must be json, csv, ndjson or lines"))?;
    let bulk = found(&app, &batch).await?.bulk;
    if let Some(format) = format {
        return rejected(app, bulk, page.after, format).await;
    }
    let errors = app.store.bulk_errors(&bulk, page.after, limit).await?;
    let is_full = u32::try_from(errors.len()).is_ok_and(|len| len == limit);
    let next = errors.last().filter(|_| is_full).map(|last| last.line);
    let errors = errors
        .into_iter()
        .map(contract::BulkLineError::of)
        .collect();
    Ok(Json(contract::BulkErrors { errors, next }).into_response())
}

async fn rejected(
    app: App,
    bulk: BulkId,
    after: u64,
    format: Format,
) -> Result<Response, ApiError> {
    let page = move |after: u64| {
        let (app, bulk) = (app.clone(), bulk.clone());
        async move {
            let errors = app.store.bulk_errors(&bulk, after, ROWS_AT_ONCE).await?;
            let last = errors.last().map(|last| last.line);
            let rows: Vec<Row> = errors.iter().map(row).collect();
            Ok((rows, last))
        }
    };
    REJECTED.whole(format, after, page).await
}

/// The lines themselves, whole, with their accounts: for those who may see them. A line that was too long or could not
/// be read as text is left out.
async fn corrected(
    app: App,
    caller: &Caller,
    batch: &str,
    after: u64,
) -> Result<Response, ApiError> {
    if !caller.sees_accounts() {
        let error = "rejected lines contain account numbers; this needs the role operate";
        return Err(ApiError::new(StatusCode::FORBIDDEN, error));
    }
    let bulk = found(&app, batch).await?.bulk;
    let pages = futures::stream::try_unfold(after, move |after| {
        let (app, bulk) = (app.clone(), bulk.clone());
        async move {
            let errors = app.store.bulk_errors(&bulk, after, ROWS_AT_ONCE).await;
            let errors = errors.map_err(std::io::Error::other)?;
            let last = errors.last().map(|last| last.line);
            let lines = errors.into_iter().filter_map(|error| error.text);
            let text: String = lines.map(|line| line + "\n").collect();
            Ok::<_, std::io::Error>(last.map(|last| (text, last)))
        }
    });
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (
            header::CONTENT_DISPOSITION,
            "attachment; filename=\"rejected-lines.ndjson\"",
        ),
    ];
    Ok((headers, axum::body::Body::from_stream(pages)).into_response())
}

fn row(error: &LineError) -> Row {
    let what = error.details.iter();
    let what: Vec<String> = what
        .map(|(field, what)| format!("{field} {what}"))
        .collect();
    Row::from_iter([
        ("line".to_owned(), json!(error.line)),
        ("paymentId".to_owned(), json!(error.id)),
        ("error".to_owned(), json!(what.join("; "))),
    ])
}
