//! Jobs: acts on many items that people have previewed and confirmed. The items of a job are fixed when it
//! is previewed; each is acted on once, and what became of it is written in the transaction that acts.

use std::time::Duration;

use async_trait::async_trait;

use super::{Author, Page, PageFrom, PageToken, StoreResult};
use crate::Timestamp;
use crate::id::{BulkId, ItemId, ItemType, JobId};
use crate::job::{Candidate, JobAct, JobItem, JobMoves, JobPlace, JobState, JobSummary};

/// So many items of a job lie in one row; written and read together.
pub const ITEMS_PER_CHUNK: usize = 200;

#[async_trait]
pub trait Jobs: Send + Sync {
    /// Items in the order of their ids, by the index that serves the narrowest part of a filter.
    async fn candidates(&self, wanted: CandidatesWanted) -> StoreResult<Vec<Candidate>>;

    /// Begins a preview. False if the id is taken.
    async fn open_job(&self, job: NewJob) -> StoreResult<bool>;

    /// Adds items to a preview; all chunks but the last of a job are full.
    async fn add_job_items(
        &self,
        job: &JobId,
        first_chunk: u32,
        chunks: Vec<Vec<JobItem>>,
    ) -> StoreResult<()>;

    /// The preview is complete: it can be confirmed by its digest.
    async fn close_preview(
        &self,
        job: &JobId,
        digest: &str,
        summary: JobSummary,
    ) -> StoreResult<()>;

    /// A job that was confirmed, or a complete preview.
    async fn job(&self, job: &JobId) -> StoreResult<Option<JobView>>;

    async fn job_by_digest(&self, digest: &str) -> StoreResult<Option<JobView>>;

    /// Jobs that were confirmed, newest first.
    async fn jobs(
        &self,
        from: PageFrom<PageToken>,
        limit: u32,
    ) -> StoreResult<Page<JobView, PageToken>>;

    /// The items of a job as they were previewed, one chunk.
    async fn previewed_items(&self, job: &JobId, chunk: u32) -> StoreResult<Vec<JobItem>>;

    /// A person confirms a preview: it runs from now on. False if it is no preview any more.
    async fn start_job(&self, job: &JobId, author: Author) -> StoreResult<bool>;

    /// The job to go on with: the one that was confirmed first, of those that are worked off there.
    async fn job_to_do(&self, place: JobPlace) -> StoreResult<Option<JobView>>;

    /// Acts on the next few items of a running job, in one transaction. Items that have moved since the
    /// preview, or that the act cannot be done to, are left out. What is put back into the queue gets
    /// a slot in the room that is left. The job ends with its last item.
    async fn work_job(&self, job: &JobId, limit: u32, moves: JobMoves) -> StoreResult<Worked>;

    /// The next few items of a running job that asks banks, each with its number.
    async fn next_to_ask(&self, job: &JobId, limit: u32) -> StoreResult<Vec<(u64, ItemId)>>;

    /// What came of asking about an item of a running job: its result and the evidence in one transaction. Nothing is
    /// written if the item has its result already: two may have asked about it.
    async fn note_asked(&self, job: &JobId, asked: AskedItem) -> StoreResult<Worked>;

    /// Stops a running job: what was done stays done, the rest is untouched. False if it does not run.
    async fn stop_job(&self, job: &JobId, author: Author) -> StoreResult<bool>;

    /// What became of the items of a job, in their order; all that were looked at, or those left out.
    async fn job_results(&self, wanted: ResultsWanted) -> StoreResult<Page<JobResult, u64>>;

    /// Removes previews that nobody has confirmed; returns how many chunks.
    async fn forget_previews(&self, older_than: Duration, limit: u32) -> StoreResult<u64>;
}

#[derive(Debug, Clone)]
pub struct CandidatesWanted {
    pub item_type: ItemType,
    pub by: CandidatesBy,
    pub after: Option<ItemId>,
    pub limit: u32,
}

/// What an index serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CandidatesBy {
    Held,
    Dead,
    Import(BulkId),
    Status(String),
}

#[derive(Debug, Clone)]
pub struct NewJob {
    pub id: JobId,
    pub item_type: ItemType,
    pub act: JobAct,
    /// From when on slots are given, for a reschedule.
    pub requested: Option<Timestamp>,
    /// Opaque to the store.
    pub filter_json: String,
    pub actor: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobView {
    pub id: JobId,
    pub item_type: ItemType,
    pub act: JobAct,
    pub requested: Option<Timestamp>,
    pub filter_json: String,
    pub state: JobState,
    pub digest: String,
    pub summary: JobSummary,
    /// Who confirmed it, and why; while it is a preview, who asked for it.
    pub actor: String,
    pub reason: String,
    pub done: u64,
    pub left_out: u64,
    pub previewed_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Who stopped it, and why.
    pub stopped: Option<String>,
}

/// What became of one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worked {
    /// So many were looked at; there are more.
    Some(u64),
    /// All items were looked at: it has ended.
    Ended(u64),
    /// It does not run.
    NotRunning,
}

/// What came of asking about one item of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedItem {
    pub number: u64,
    pub id: ItemId,
    /// What its bank said, or why it was not asked.
    pub said: Result<BankSaid, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BankSaid {
    /// In one sentence.
    pub answer: String,
    /// The bank's own words, if they prove that the item was done.
    pub evidence: Option<String>,
}

#[derive(Debug, Clone)]
pub struct ResultsWanted {
    pub job: JobId,
    pub only_left_out: bool,
    /// The number of the last item before.
    pub after: Option<u64>,
    pub limit: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobResult {
    /// Its place among the items of the job, from 1 on.
    pub number: u64,
    pub id: ItemId,
    /// Why it was left out; none if it was done.
    pub left_out: Option<String>,
    /// What the bank said about it, if it was asked.
    pub answer: Option<String>,
}
