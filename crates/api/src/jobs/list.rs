//! `GET /admin/jobs`: the jobs page by page, and what one did, item by item.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::ports::{Counted, Page, PageToken, ResultsWanted};
use utoipa::IntoParams;

use crate::App;
use crate::answer::error::ApiError;
use crate::answer::export::{Format, List, ROWS_AT_ONCE, rows};
use crate::answer::of::Of;
use crate::contract::refusals::{Finds, Reads};
use crate::contract::words;
use crate::door::auth::Caller;
use crate::request::extract::{Path, Query};
use crate::request::page;
use crate::request::page::{NewestFirst, PageRequest};

const JOBS: List = List {
    name: "jobs",
    columns: &[
        "jobId",
        "act",
        "itemType",
        "state",
        "count",
        "amounts",
        "done",
        "leftOut",
        "left",
        "actor",
        "reason",
        "filter",
        "executeAt",
        "previewedAt",
        "startedAt",
        "endedAt",
        "stopped",
    ],
};

/// Lists jobs, newest first. With `format`, exports the whole list as a file.
#[utoipa::path(
    get, path = "/admin/jobs", operation_id = "listJobs", tag = "jobs",
    params(NewestFirst),
    responses(
        (status = 200, description = "One page, or the whole list.", content(
            (contract::JobList = "application/json"),
            (String = "text/csv"),
            (String = "application/x-ndjson"),
        )),
        Reads,
    ),
)]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<NewestFirst>,
) -> Result<Response, ApiError> {
    let asked = query.read()?;
    let Some(format) = asked.format else {
        let page = app.jobs(&caller, &asked).await?;
        let length = app.length(Counted::Jobs).await?;
        return Ok(Json(contract::JobList {
            jobs: page.items,
            next: page.next.map(|next| next.to_string()),
            previous: page.previous.map(|previous| previous.to_string()),
            count: length.count,
            at_least: length.at_least,
        })
        .into_response());
    };
    let page = move |asked: PageRequest| {
        let (app, caller) = (app.clone(), caller.clone());
        async move {
            let page = app.jobs(&caller, &asked).await?;
            Ok((rows(&page.items)?, asked.on(page.next)))
        }
    };
    JOBS.whole(format, asked, page).await
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ItemsQuery {
    /// Only items that were left out.
    #[serde(default)]
    left_out: bool,
    /// Page token: the `next` of the previous page.
    #[param(minimum = 0)]
    after: Option<u64>,
    /// Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// `json`: one page. `csv` or `ndjson`: all results as a file; `limit` does not apply.
    #[param(schema_with = words::list_format)]
    format: Option<String>,
}

const ITEMS: List = List {
    name: "job-items",
    columns: &["number", "id", "done", "leftOut", "answer"],
};

/// Lists the results of a job, item by item. Items that the job has not reached yet are not listed. With `format`, exports the
/// whole list as a file.
#[utoipa::path(
    get, path = "/admin/jobs/{job}/items", operation_id = "listJobItems", tag = "jobs",
    params(("job" = String, Path, description = "The job's id.", example = "job-20261116-170000-000123"), ItemsQuery),
    responses(
        (status = 200, description = "One page, or the whole list.", content(
            (contract::JobItems = "application/json"),
            (String = "text/csv"),
            (String = "application/x-ndjson"),
        )),
        Finds,
    ),
)]
pub(super) async fn items(
    State(app): State<App>,
    Path(job): Path<String>,
    Query(query): Query<ItemsQuery>,
) -> Result<Response, ApiError> {
    let format = Format::parse(query.format.as_deref())?;
    let limit = page::limit(query.limit)?;
    let job = app.job_named(&job).await?;
    let wanted = ResultsWanted {
        job: job.id,
        only_left_out: query.left_out,
        after: query.after,
        limit: if format.is_some() {
            ROWS_AT_ONCE
        } else {
            limit
        },
    };
    let Some(format) = format else {
        let page = app.results(wanted).await?;
        let done = if query.left_out { 0 } else { job.done };
        return Ok(Json(contract::JobItems {
            items: page.items,
            next: page.next,
            count: done + job.left_out,
        })
        .into_response());
    };
    let page = move |wanted: ResultsWanted| {
        let app = app.clone();
        async move {
            let page = app.results(wanted.clone()).await?;
            let after = page.next;
            let next = after.map(|_| ResultsWanted { after, ..wanted });
            Ok((rows(&page.items)?, next))
        }
    };
    ITEMS.whole(format, wanted, page).await
}

impl App {
    async fn jobs(
        &self,
        caller: &Caller,
        asked: &PageRequest,
    ) -> Result<Page<contract::Job, PageToken>, ApiError> {
        let page = self.store.jobs(asked.from.clone(), asked.limit).await?;
        let now = self.store.now().await?;
        Ok(page.map(|job| contract::Job::of((job, caller, now))))
    }

    async fn results(
        &self,
        wanted: ResultsWanted,
    ) -> Result<Page<contract::JobItem, u64>, ApiError> {
        let page = self.store.job_results(wanted).await?;
        Ok(page.map(contract::JobItem::of))
    }
}
