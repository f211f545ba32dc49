//! Acts on many items, before they begin: what a filter finds is fixed as the preview of a job, and a person
//! confirms it by its digest. A service works it off (`dispatch/src/job_runner.rs`).

mod compare;
mod scan;

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tollgate_core::id::{ItemType, JobId};
use tollgate_core::job::{JobAct, JobFilter, JobItem, JobState, JobSummary};
use tollgate_core::ports::{
    Author, ITEMS_PER_CHUNK, JobView, NewJob, Store, StoreError, StoreResult,
};
use tollgate_core::{SignedDuration, Timestamp};

use scan::Scan;

/// A preview can be confirmed for this long.
pub const PREVIEW_LASTS: SignedDuration = SignedDuration::from_mins(15);
/// So many full chunks are written at once.
const CHUNKS_AT_ONCE: usize = 20;

/// What a person wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    pub item_type: ItemType,
    pub act: JobAct,
    pub filter: JobFilter,
    /// From when on, for a reschedule.
    pub requested: Option<Timestamp>,
}

#[derive(Debug)]
pub enum JobError {
    /// The filter finds nothing that the act can be done to; one sentence.
    NothingToDo(String),
    /// More rows than one job looks at.
    TooMany(u64),
    Store(StoreError),
}

impl From<StoreError> for JobError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What became of a confirmation.
#[derive(Debug)]
pub enum Confirmed {
    /// It runs, or ran already: the same confirmation came twice.
    Job(JobView),
    /// The preview is too old, or other items are found now; why, and the new one.
    Stale(&'static str, JobView),
    /// No preview of this wish has this digest.
    Unknown,
}

/// Fixes what the wish finds now.
pub async fn preview(
    store: &Arc<dyn Store>,
    wish: &Wish,
    actor: &str,
) -> Result<JobView, JobError> {
    let mut scan = Scan::begin(store, wish).await?;
    let mut draft: Option<Draft<'_>> = None;
    let mut summary = JobSummary::default();
    while let Some(page) = scan.next().await? {
        for found in page {
            if let Some(why) = found.refused {
                summary.leave_out(&found.item, why);
                continue;
            }
            summary.take(&found.item);
            let draft = match &mut draft {
                Some(draft) => draft,
                None => draft.insert(Draft::open(store, wish, actor).await?),
            };
            draft.add((&found.item).into()).await?;
        }
    }
    match draft {
        Some(draft) => Ok(draft.close(summary).await?),
        None => Err(JobError::NothingToDo(nothing(wish, &summary))),
    }
}

fn nothing(wish: &Wish, summary: &JobSummary) -> String {
    let (kind, done) = (wish.item_type.as_str(), wish.act.done());
    match summary.excluded.first() {
        None => format!("matches no item of type {kind}; archived items are not searched"),
        Some(excluded) => format!(
            "matches no item of type {kind} that can be {done}; {}: {}",
            excluded.first[0], excluded.reason
        ),
    }
}

/// Starts what was previewed, if that is still what is found.
pub async fn confirm(
    store: &Arc<dyn Store>,
    wish: &Wish,
    digest: &str,
    author: Author,
) -> Result<Confirmed, JobError> {
    let Some(job) = store.job_by_digest(digest).await? else {
        return Ok(Confirmed::Unknown);
    };
    if wish_of(&job)? != *wish {
        return Ok(Confirmed::Unknown);
    }
    if job.state != JobState::Preview {
        return Ok(Confirmed::Job(job));
    }
    let age = store.now().await?.duration_since(job.previewed_at);
    let stale = if age > PREVIEW_LASTS {
        Some("the preview is older than 15 minutes")
    } else {
        let differences = compare::differences(store, wish, &job.id).await?;
        let is_off = job.summary.is_off_by(differences);
        is_off.then_some("more than 1 % of the items have changed since the preview")
    };
    if let Some(why) = stale {
        let renewed = preview(store, wish, &author.actor).await?;
        return Ok(Confirmed::Stale(why, renewed));
    }
    store.start_job(&job.id, author).await?;
    let started = store.job(&job.id).await?;
    Ok(started.map_or(Confirmed::Unknown, Confirmed::Job))
}

fn wish_of(job: &JobView) -> StoreResult<Wish> {
    Ok(Wish {
        item_type: job.item_type.clone(),
        act: job.act,
        filter: filter_of(job)?,
        requested: job.requested,
    })
}

pub(crate) fn filter_of(job: &JobView) -> StoreResult<JobFilter> {
    serde_json::from_str(&job.filter_json)
        .map_err(|e| StoreError::Bug(format!("the filter of {}: {e}", job.id)))
}

/// A preview while its items are written.
struct Draft<'a> {
    store: &'a Arc<dyn Store>,
    id: JobId,
    digest: Sha256,
    items: Vec<JobItem>,
    chunks: Vec<Vec<JobItem>>,
    written: u32,
}

impl<'a> Draft<'a> {
    async fn open(store: &'a Arc<dyn Store>, wish: &Wish, actor: &str) -> StoreResult<Self> {
        let filter_json = serde_json::to_string(&wish.filter)
            .map_err(|e| StoreError::Bug(format!("a filter cannot be written: {e}")))?;
        loop {
            let id = id_at(store.now().await?);
            let new = NewJob {
                id: id.clone(),
                item_type: wish.item_type.clone(),
                act: wish.act,
                requested: wish.requested,
                filter_json: filter_json.clone(),
                actor: actor.to_owned(),
            };
            // Another may have begun in the same microsecond.
            if store.open_job(new).await? {
                let digest = Sha256::new_with_prefix(id.as_str());
                return Ok(Self {
                    store,
                    id,
                    digest,
                    items: vec![],
                    chunks: vec![],
                    written: 0,
                });
            }
        }
    }

    async fn add(&mut self, item: JobItem) -> StoreResult<()> {
        self.digest.update(item.id.as_str());
        self.digest.update([0]);
        self.digest.update(item.run.to_be_bytes());
        self.items.push(item);
        if self.items.len() == ITEMS_PER_CHUNK {
            self.chunks.push(std::mem::take(&mut self.items));
        }
        if self.chunks.len() == CHUNKS_AT_ONCE {
            self.write().await?;
        }
        Ok(())
    }

    async fn write(&mut self) -> StoreResult<()> {
        let chunks = std::mem::take(&mut self.chunks);
        let count = u32::try_from(chunks.len()).unwrap_or(u32::MAX);
        let added = self.store.add_job_items(&self.id, self.written, chunks);
        added.await?;
        self.written += count;
        Ok(())
    }

    async fn close(mut self, summary: JobSummary) -> StoreResult<JobView> {
        if !self.items.is_empty() {
            self.chunks.push(std::mem::take(&mut self.items));
        }
        self.write().await?;
        let digest = hex::encode(self.digest.finalize());
        self.store.close_preview(&self.id, &digest, summary).await?;
        let lost = || StoreError::Bug(format!("the preview {} is gone", self.id));
        self.store.job(&self.id).await?.ok_or_else(lost)
    }
}

/// `job-20261116-170000-000123`: when it was previewed.
fn id_at(now: Timestamp) -> JobId {
    let within = now.as_microsecond().rem_euclid(1_000_000);
    JobId::new(format!("job-{}-{within:06}", now.strftime("%Y%m%d-%H%M%S")))
}
