//! Jobs as people ask about them, and their items as they are kept.

use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::id::{ItemId, JobId};
use tollgate_core::item::QueueStatus;
use tollgate_core::job::{JobAct, JobItem, JobPlace, JobState};
use tollgate_core::ports::{
    JobResult, JobView, Page, PageFrom, PageToken, ResultsWanted, StoreError, StoreResult,
    rows_needed,
};

use crate::sql::{Row, Sql, Tx, params};
use crate::value::unknown_word;

pub(super) async fn job(tx: &Tx, job: &JobId) -> StoreResult<Option<JobView>> {
    const JOB: &str =
        "SELECT job_id, item_type, act, requested_time, filter, state, digest, summary,
                actor, reason, done, left_out, previewed_at, started_at, ended_at, stopped
         FROM job WHERE job_id = $1 AND digest IS NOT NULL";
    let row = tx.row(JOB, params![job]).await;
    row.as_ref().map(view_from).transpose()
}

pub(super) async fn by_digest(tx: &Tx, digest: &str) -> StoreResult<Option<JobView>> {
    const JOB: &str =
        "SELECT job_id, item_type, act, requested_time, filter, state, digest, summary,
                actor, reason, done, left_out, previewed_at, started_at, ended_at, stopped
         FROM job WHERE digest = $1";
    let row = tx.row(JOB, params![digest]).await;
    row.as_ref().map(view_from).transpose()
}

pub(super) async fn to_do(tx: &Tx, place: JobPlace) -> StoreResult<Option<JobView>> {
    const FIRST: &str = "SELECT job_id, item_type, act, requested_time, filter, state, digest,
                summary, actor, reason, done, left_out, previewed_at, started_at, ended_at, stopped
         FROM job WHERE state = 'RUNNING' AND started_at > 0 AND act <> 'ask'
         ORDER BY started_at, job_id LIMIT 1";
    const FIRST_TO_ASK: &str = "SELECT job_id, item_type, act, requested_time, filter, state,
                digest, summary, actor, reason, done, left_out, previewed_at, started_at, ended_at,
                stopped
         FROM job WHERE state = 'RUNNING' AND started_at > 0 AND act = 'ask'
         ORDER BY started_at, job_id LIMIT 1";
    let first = match place {
        JobPlace::Store => FIRST,
        JobPlace::Banks => FIRST_TO_ASK,
    };
    let row = tx.row(first, params![]).await;
    row.as_ref().map(view_from).transpose()
}

pub(super) async fn newest(
    tx: &Tx,
    from: PageFrom<PageToken>,
    limit: u32,
) -> StoreResult<Page<JobView, PageToken>> {
    const OLDER: &str = "SELECT job_id, item_type, act, requested_time, filter, state, digest,
                summary, actor, reason, done, left_out, previewed_at, started_at, ended_at, stopped
         FROM job WHERE started_at IS NOT NULL AND (started_at, job_id) < ($1, $2)
         ORDER BY started_at DESC, job_id DESC LIMIT $3";
    const NEWER: &str = "SELECT job_id, item_type, act, requested_time, filter, state, digest,
                summary, actor, reason, done, left_out, previewed_at, started_at, ended_at, stopped
         FROM job WHERE started_at IS NOT NULL AND (started_at, job_id) > ($1, $2)
         ORDER BY started_at, job_id LIMIT $3";
    let asked = rows_needed(limit, false);
    let (place, upwards) = from.clone().bounds(false);
    let sql = if upwards { NEWER } else { OLDER };
    let rows = tx.rows(sql, params![place.rank, place.id, asked]).await;
    let rows = rows.iter().map(view_from).collect::<StoreResult<_>>()?;
    let page_token = |job: &JobView| {
        let started = job.started_at.map_or(0, Timestamp::as_microsecond);
        PageToken::new(started, &job.id)
    };
    Ok(Page::beside(rows, asked, limit, &from, page_token))
}

fn view_from(row: &Row) -> StoreResult<JobView> {
    Ok(JobView {
        id: row.get("job_id")?,
        item_type: row.get("item_type")?,
        act: row.word("act", JobAct::parse)?,
        requested: row.get("requested_time")?,
        filter_json: row.get("filter")?,
        state: row.word("state", JobState::parse)?,
        digest: row.get("digest")?,
        summary: row.json("summary")?,
        actor: row.get("actor")?,
        reason: row.get("reason")?,
        done: row.get("done")?,
        left_out: row.get("left_out")?,
        previewed_at: row.get("previewed_at")?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
        stopped: row.get("stopped")?,
    })
}

pub(super) async fn results(tx: &Tx, wanted: &ResultsWanted) -> StoreResult<Page<JobResult, u64>> {
    const ALL: &str = "SELECT number, item_id, left_out, answer FROM job_result
         WHERE job_id = $1 AND number > $2 ORDER BY number LIMIT $3";
    // SQLite does not see by itself that the smaller index has all of them.
    const LEFT_OUT: Sql = Sql::each(
        "SELECT number, item_id, left_out, answer FROM job_result INDEXED BY job_result_left_out
         WHERE job_id = $1 AND number > $2 AND left_out IS NOT NULL ORDER BY number LIMIT $3",
        "SELECT number, item_id, left_out, answer FROM job_result
         WHERE job_id = $1 AND number > $2 AND left_out IS NOT NULL ORDER BY number LIMIT $3",
    );
    let asked = rows_needed(wanted.limit, false);
    let page = params![&wanted.job, wanted.after.unwrap_or(0), asked];
    let rows = if wanted.only_left_out {
        tx.rows(LEFT_OUT, page).await
    } else {
        tx.rows(ALL, page).await
    };
    let result = |row: &Row| {
        Ok(JobResult {
            number: row.get("number")?,
            id: row.get("item_id")?,
            left_out: row.get("left_out")?,
            answer: row.get("answer")?,
        })
    };
    let rows = rows.iter().map(result).collect::<StoreResult<_>>()?;
    let number = |result: &JobResult| result.number;
    Ok(Page::of(rows, asked, wanted.limit, |_| true, number))
}

/// Id, run and place in the queue, as they lie in a chunk.
#[derive(Serialize, Deserialize)]
struct Kept(ItemId, u32, String);

pub(super) fn written(items: Vec<JobItem>) -> StoreResult<String> {
    let kept = items.into_iter();
    let kept = kept.map(|item| Kept(item.id, item.run, item.was.to_string()));
    let kept: Vec<Kept> = kept.collect();
    serde_json::to_string(&kept).map_err(|e| StoreError::Bug(format!("items of a job: {e}")))
}

pub(super) async fn chunk(tx: &Tx, job: &JobId, number: u32) -> StoreResult<Vec<JobItem>> {
    const CHUNK: &str = "SELECT body FROM job_chunk WHERE job_id = $1 AND chunk_no = $2";
    let Some(row) = tx.row(CHUNK, params![job, number]).await else {
        return Ok(vec![]);
    };
    let kept: Vec<Kept> = row.json("body")?;
    let item = |Kept(id, run, was): Kept| {
        let unknown = || StoreError::Bug(unknown_word("body", &was));
        let was = QueueStatus::parse(&was).ok_or_else(unknown)?;
        Ok(JobItem { id, run, was })
    };
    kept.into_iter().map(item).collect()
}
