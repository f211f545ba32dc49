//! `/admin/jobs`: acts on many items. First a preview, then the same request with its digest. `request.rs` reads what is asked
//! for, `views.rs` and `list.rs` show jobs.

mod list;
pub(crate) mod request;
pub(crate) mod views;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tollgate_contract as contract;
use tollgate_core::id::JobId;
use tollgate_core::ports::JobView;
use tollgate_operations::jobs::{self, Confirmed, JobError};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::{Changes, Finds};
use crate::door::auth::Caller;
use crate::payments::changes::Because;
use crate::request::body::{Body, author, parse, wrong};
use crate::request::extract::Path;
use request::wish;

impl From<JobError> for ApiError {
    fn from(error: JobError) -> Self {
        match error {
            JobError::NothingToDo(what) => wrong("filter", what),
            JobError::TooMany(most) => {
                let what = format!(
                    "selects too many items: a job has at most {most}; add a condition such as import, held or status"
                );
                wrong("filter", what)
            }
            JobError::Store(error) => error.into(),
        }
    }
}

/// Previews a job, or starts the one that was previewed.
///
/// With `dryRun: true`: selects the items and returns a preview. With the preview's `digest` instead: starts the
/// job on exactly these items. Items that change before their turn are left out and listed; new items are not
/// touched. 409 (`preview_stale`) with a new preview if the preview is older than 15 minutes, or if more than 1 %
/// of the items have changed. Released, rescheduled, replayed and reopened items get slots that are still free.
/// `ask` asks the banks about payments in doubt, each with a turn in its lane; the result of each item has the answer.
#[utoipa::path(
    post, path = "/admin/jobs", operation_id = "startJob", tag = "jobs",
    request_body = contract::JobRequest,
    responses(
        (status = 200, description = "The preview; nothing is changed.", body = contract::JobOrPreview),
        (status = 202, description = "The job runs.", body = contract::JobOrPreview),
        Changes,
    ),
)]
async fn start(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let request: contract::JobRequest = parse(&headers, body)?;
    let because = request.reason.clone();
    let author = because.map(|reason| author(&caller, reason)).transpose()?;
    let wish = wish(&request, &app).await?;
    let digest = match (request.dry_run, request.digest) {
        (true, _) => {
            let job = jobs::preview(&app.store, &wish, caller.name()).await?;
            return Ok(
                Json(contract::JobOrPreview::Preview(contract::JobPreview::of(
                    job,
                )))
                .into_response(),
            );
        }
        (false, Some(digest)) => digest,
        (false, None) => {
            let what = "is required to start a job; send the request with \"dryRun\": true first";
            return Err(wrong("digest", what));
        }
    };
    let author = author.ok_or_else(|| wrong("reason", "is required to start a job"))?;
    match jobs::confirm(&app.store, &wish, &digest, author).await? {
        Confirmed::Job(job) => {
            let (act, count) = (job.act.as_str(), job.summary.count);
            let what = format!("{}: {act}, {count} items", job.id);
            app.acted(caller.name(), "job started", &what);
            let told = contract::JobOrPreview::Job(Box::new(app.job_told(job, &caller).await?));
            Ok((StatusCode::ACCEPTED, Json(told)).into_response())
        }
        Confirmed::Stale(why, renewed) => {
            let why = format!("{why}; nothing was done, check the new preview and confirm it");
            Err(ApiError::stale(why, contract::JobPreview::of(renewed)))
        }
        Confirmed::Unknown => {
            let what = "does not belong to a preview of this action and filter; preview it again";
            Err(wrong("digest", what))
        }
    }
}

impl App {
    async fn job_told(&self, job: JobView, caller: &Caller) -> Result<contract::Job, ApiError> {
        let now = self.store.now().await?;
        Ok(contract::Job::of((job, caller, now)))
    }

    pub(super) async fn job_named(&self, name: &str) -> Result<JobView, ApiError> {
        let missing = || ApiError::not_found(format!("there is no job {name}"));
        if name.contains('\0') {
            return Err(missing());
        }
        let found = self.store.job(&JobId::new(name)).await?;
        found.ok_or_else(missing)
    }
}

/// Shows a job and its progress.
#[utoipa::path(
    get, path = "/admin/jobs/{job}", operation_id = "getJob", tag = "jobs",
    params(("job" = String, Path, description = "The job's id.", example = "job-20261116-170000-000123")),
    responses((status = 200, description = "The job.", body = contract::Job), Finds),
)]
async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(job): Path<String>,
) -> Result<Json<contract::Job>, ApiError> {
    let job = app.job_named(&job).await?;
    Ok(Json(app.job_told(job, &caller).await?))
}

/// Stops a job. Items already done stay done; the rest is left unchanged.
#[utoipa::path(
    post, path = "/admin/jobs/{job}/stop", operation_id = "stopJob", tag = "jobs",
    params(("job" = String, Path, description = "The job's id.", example = "job-20261116-170000-000123")),
    request_body = Because,
    responses((status = 200, description = "The stopped job.", body = contract::Job), Changes),
)]
async fn stop(
    State(app): State<App>,
    caller: Caller,
    Path(job): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Job>, ApiError> {
    let author = author(&caller, parse::<Because>(&headers, body)?.reason)?;
    let job = app.job_named(&job).await?.id;
    if !app.store.stop_job(&job, author).await? {
        return Err(ApiError::conflict(format!("{job} is not running")));
    }
    app.acted(caller.name(), "job stopped", job.as_str());
    let stopped = app.job_named(job.as_str()).await?;
    Ok(Json(app.job_told(stopped, &caller).await?))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(start, list::list))
        .routes(routes!(show))
        .routes(routes!(list::items))
        .routes(routes!(stop))
}
