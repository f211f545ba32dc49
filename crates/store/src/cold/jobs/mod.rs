//! Jobs: their previews, their beginning and their end. `work.rs` works them off, `candidates.rs` and `views.rs` read.

mod asks;
mod candidates;
mod views;
mod work;

use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::id::{ItemId, JobId};
use tollgate_core::job::{Candidate, JobItem, JobMoves, JobPlace, JobSummary};
use tollgate_core::ports::{
    AskedItem, Author, CandidatesWanted, JobResult, JobView, Jobs, NewJob, Page, PageFrom,
    PageToken, ResultsWanted, StoreError, StoreResult, Worked,
};

use super::audit::audit;
use crate::audit::Entry;
use crate::sql::{Params, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;
use crate::value::micros;

#[async_trait]
impl<D: Database> Jobs for StoreOn<D> {
    async fn candidates(&self, wanted: CandidatesWanted) -> StoreResult<Vec<Candidate>> {
        self.read(move |tx| async move { candidates::page(&tx, &wanted).await })
            .await
    }

    async fn open_job(&self, job: NewJob) -> StoreResult<bool> {
        const OPEN: &str = "INSERT INTO job (job_id, item_type, act, requested_time, filter, state,
                 summary, actor, reason, total, done, left_out, previewed_at)
             VALUES ($1, $2, $3, $4, $5, 'PREVIEW', '', $6, '', 0, 0, 0, tg_now())
             ON CONFLICT DO NOTHING";
        let (kind, act) = (&job.item_type, job.act.as_str());
        let opened = params![
            &job.id,
            kind,
            act,
            job.requested,
            job.filter_json,
            job.actor
        ];
        self.write(Urgency::Normal, move |tx| async move {
            Ok(tx.execute(OPEN, opened).await > 0)
        })
        .await
    }

    async fn add_job_items(
        &self,
        job: &JobId,
        first_chunk: u32,
        chunks: Vec<Vec<JobItem>>,
    ) -> StoreResult<()> {
        const ADD: &str = "INSERT INTO job_chunk (job_id, chunk_no, body) VALUES ($1, $2, $3)";
        let row =
            |(number, items): (u32, Vec<JobItem>)| Ok(params![job, number, views::written(items)?]);
        let rows = (first_chunk..).zip(chunks).map(row);
        let rows = rows.collect::<StoreResult<Vec<Params>>>()?;
        self.write(Urgency::Normal, move |tx| async move {
            tx.execute_each(ADD, rows).await;
            Ok(())
        })
        .await
    }

    async fn close_preview(
        &self,
        job: &JobId,
        digest: &str,
        summary: JobSummary,
    ) -> StoreResult<()> {
        const CLOSE: &str = "UPDATE job SET digest = $2, summary = $3, total = $4
             WHERE job_id = $1 AND state = 'PREVIEW'";
        let text = serde_json::to_string(&summary)
            .map_err(|e| StoreError::Bug(format!("the summary of {job}: {e}")))?;
        let closed = params![job, digest, text, summary.count];
        self.write(Urgency::Normal, move |tx| async move {
            tx.execute(CLOSE, closed).await;
            Ok(())
        })
        .await
    }

    async fn job(&self, job: &JobId) -> StoreResult<Option<JobView>> {
        let job = job.clone();
        self.read(move |tx| async move { views::job(&tx, &job).await })
            .await
    }

    async fn job_by_digest(&self, digest: &str) -> StoreResult<Option<JobView>> {
        let digest = digest.to_owned();
        self.read(move |tx| async move { views::by_digest(&tx, &digest).await })
            .await
    }

    async fn jobs(
        &self,
        from: PageFrom<PageToken>,
        limit: u32,
    ) -> StoreResult<Page<JobView, PageToken>> {
        self.read(move |tx| async move { views::newest(&tx, from, limit).await })
            .await
    }

    async fn previewed_items(&self, job: &JobId, chunk: u32) -> StoreResult<Vec<JobItem>> {
        let job = job.clone();
        self.read(move |tx| async move { views::chunk(&tx, &job, chunk).await })
            .await
    }

    async fn start_job(&self, job: &JobId, author: Author) -> StoreResult<bool> {
        let job = job.clone();
        self.write(Urgency::Normal, move |tx| async move {
            start(&tx, &job, &author).await
        })
        .await
    }

    async fn job_to_do(&self, place: JobPlace) -> StoreResult<Option<JobView>> {
        self.read(move |tx| async move { views::to_do(&tx, place).await })
            .await
    }

    async fn work_job(&self, job: &JobId, limit: u32, moves: JobMoves) -> StoreResult<Worked> {
        let (job, margin) = (job.clone(), self.0.gate_margin());
        self.write(Urgency::Normal, move |tx| async move {
            work::work(&tx, &job, limit, moves, margin).await
        })
        .await
    }

    async fn next_to_ask(&self, job: &JobId, limit: u32) -> StoreResult<Vec<(u64, ItemId)>> {
        let job = job.clone();
        self.read(move |tx| async move { asks::next(&tx, &job, limit).await })
            .await
    }

    async fn note_asked(&self, job: &JobId, asked: AskedItem) -> StoreResult<Worked> {
        let job = job.clone();
        self.write(Urgency::Normal, move |tx| async move {
            asks::note(&tx, &job, asked).await
        })
        .await
    }

    async fn stop_job(&self, job: &JobId, author: Author) -> StoreResult<bool> {
        let job = job.clone();
        self.write(Urgency::Normal, move |tx| async move {
            stop(&tx, &job, &author).await
        })
        .await
    }

    async fn job_results(&self, wanted: ResultsWanted) -> StoreResult<Page<JobResult, u64>> {
        self.read(move |tx| async move { views::results(&tx, &wanted).await })
            .await
    }

    async fn forget_previews(&self, older_than: Duration, limit: u32) -> StoreResult<u64> {
        self.write(Urgency::Normal, move |tx| async move {
            forget(&tx, older_than, limit).await
        })
        .await
    }
}

async fn start(tx: &Tx, job: &JobId, author: &Author) -> StoreResult<bool> {
    const PREVIEW: &str = "SELECT act, item_type, total FROM job
         WHERE job_id = $1 AND state = 'PREVIEW' AND digest IS NOT NULL";
    const START: &str = "UPDATE job SET state = 'RUNNING', started_at = tg_now(), actor = $2,
                reason = $3
         WHERE job_id = $1";
    let Some(row) = tx.locked_row(PREVIEW, params![job]).await else {
        return Ok(false);
    };
    let (act, kind): (String, String) = (row.get("act")?, row.get("item_type")?);
    let total: u64 = row.get("total")?;
    let (actor, reason) = (&author.actor, &author.reason);
    tx.execute(START, params![job, actor, reason]).await;
    let detail = format!("{job}: {act}, {total} of type {kind}: {reason}");
    note(tx, "JOB_STARTED", actor, &detail).await;
    Ok(true)
}

async fn stop(tx: &Tx, job: &JobId, author: &Author) -> StoreResult<bool> {
    const RUNNING: &str = "SELECT total, done, left_out FROM job
         WHERE job_id = $1 AND state = 'RUNNING'";
    const STOP: &str = "UPDATE job SET state = 'STOPPED', ended_at = tg_now(), stopped = $2
         WHERE job_id = $1";
    let Some(row) = tx.locked_row(RUNNING, params![job]).await else {
        return Ok(false);
    };
    let (total, done): (u64, u64) = (row.get("total")?, row.get("done")?);
    let left_out: u64 = row.get("left_out")?;
    let (actor, reason) = (&author.actor, &author.reason);
    tx.execute(STOP, params![job, format!("{actor}: {reason}")])
        .await;
    let detail = format!("{job}: {done} done, {left_out} left out, of {total}: {reason}");
    note(tx, "JOB_STOPPED", actor, &detail).await;
    Ok(true)
}

async fn note(tx: &Tx, action: &str, actor: &str, detail: &str) {
    let entry = Entry {
        action,
        actor,
        detail,
        ..Entry::default()
    };
    audit(tx, &entry).await;
}

/// The oldest preview, a few chunks at a time; its row goes last.
async fn forget(tx: &Tx, older_than: Duration, limit: u32) -> StoreResult<u64> {
    const OLDEST: &str = "SELECT job_id FROM job WHERE state = 'PREVIEW' AND previewed_at < $1
         ORDER BY previewed_at, job_id LIMIT 1";
    const CHUNKS: &str = "DELETE FROM job_chunk WHERE job_id = $1 AND chunk_no IN (
             SELECT chunk_no FROM job_chunk WHERE job_id = $1 ORDER BY chunk_no LIMIT $2)";
    const JOB: &str = "DELETE FROM job WHERE job_id = $1 AND state = 'PREVIEW'";
    let before = tx.now().await?.as_microsecond() - micros(older_than);
    let Some(row) = tx.locked_row(OLDEST, params![before]).await else {
        return Ok(0);
    };
    let job: JobId = row.get("job_id")?;
    let chunks = tx.execute(CHUNKS, params![&job, limit]).await;
    if chunks < u64::from(limit) {
        tx.execute(JOB, params![&job]).await;
    }
    Ok(chunks.max(1))
}
