//! Erasures: a person's data go from items that have ended, and from the texts around them. Each call is one bounded
//! piece of the work and writes how far it came, so that whoever starts next goes on from there.

use async_trait::async_trait;

use super::{Author, StoreResult};
use crate::Timestamp;
use crate::erasure::{Erasable, EraseBody, ErasureStage, ErasureWish, LeftOut};
use crate::id::{ErasureId, Item};

#[async_trait]
pub trait Erasures: Send + Sync {
    /// Items that the wish finds in the hot tables, whatever their state, in the order of types and ids.
    async fn erasure_candidates(
        &self,
        wish: &ErasureWish,
        after: Option<&Item>,
        limit: u32,
    ) -> StoreResult<Vec<Item>>;

    /// What is known of these items; those that are not there are left out.
    async fn erasable(&self, items: Vec<Item>) -> StoreResult<Vec<Erasable>>;

    /// Writes down that a person wants it: it runs from now on. False if the id is taken.
    async fn start_erasure(
        &self,
        id: &ErasureId,
        wish: ErasureWish,
        author: Author,
    ) -> StoreResult<bool>;

    async fn erasure(&self, id: &ErasureId) -> StoreResult<Option<ErasureView>>;

    /// The one that was started first, of those that run.
    async fn erasure_to_do(&self) -> StoreResult<Option<ErasureView>>;

    /// Erases those of these items that have ended, in one transaction, and notes the last as the place where it
    /// stands. What has not ended is left out and noted.
    async fn erase_items(
        &self,
        id: &ErasureId,
        items: Vec<Item>,
        body: EraseBody,
    ) -> StoreResult<()>;

    /// Deletes the settings of the customer whose account is erased, unless an invoice of theirs is left.
    async fn erase_customer(&self, id: &ErasureId) -> StoreResult<()>;

    /// Erases the notifications about erased payments among the next few notifications. False at their end.
    async fn erase_news(&self, id: &ErasureId, limit: u32, body: EraseBody) -> StoreResult<bool>;

    /// Looks for the account in the next few texts, and for texts about erased items. False at their end.
    async fn erase_texts(&self, id: &ErasureId, limit: u32) -> StoreResult<bool>;

    /// Notes where it stands, and how many were found since. An account is forgotten with the step to
    /// [`ErasureStage::Purge`].
    async fn note_erasure(&self, id: &ErasureId, progress: ErasureProgress) -> StoreResult<()>;

    /// A piece of it failed and is tried again. Repeated, it keeps the time of the first failure and takes the new reason.
    /// It is over as soon as the erasure comes further.
    async fn note_erasure_trouble(&self, id: &ErasureId, why: &str) -> StoreResult<()>;

    /// Those that run and whose last piece failed, the one that was started first at the top.
    async fn erasures_in_trouble(&self, limit: u32) -> StoreResult<Vec<ErasureView>>;

    /// Overwrites what the database file still holds of deleted rows, if the database can.
    async fn purge(&self) -> StoreResult<Purged>;

    /// It has ended.
    async fn end_erasure(&self, id: &ErasureId, purged: Purged) -> StoreResult<()>;
}

#[derive(Debug, Clone)]
pub struct ErasureProgress {
    /// Nothing is noted of one that is in another stage by now.
    pub from: ErasureStage,
    pub to: ErasureStage,
    /// Where to go on within the stage; as before without it, and at the start of another stage.
    pub after: Option<String>,
    /// Archived items that were erased since the last note.
    pub archived: u64,
    /// Files that were written again.
    pub files: u64,
    /// Days whose files were not.
    pub left_out: Vec<LeftOut>,
}

impl ErasureProgress {
    /// Nothing was found yet.
    pub fn within(stage: ErasureStage) -> Self {
        Self::to(stage, stage)
    }

    pub fn to(from: ErasureStage, to: ErasureStage) -> Self {
        Self {
            from,
            to,
            after: None,
            archived: 0,
            files: 0,
            left_out: vec![],
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasureView {
    pub id: ErasureId,
    /// None of an erasure by account from [`ErasureStage::Purge`] on.
    pub wish: Option<ErasureWish>,
    pub stage: ErasureStage,
    pub after: String,
    pub author: Author,
    /// Payments and invoices that were erased in the hot tables and in the archive.
    pub items: u64,
    pub archived: u64,
    pub notifications: u64,
    /// Texts elsewhere: rejected lines, results of jobs, entries of the audit log, settings.
    pub texts: u64,
    /// Exported files that were written again.
    pub files: u64,
    pub left_out: u64,
    /// The first of them.
    pub first_left_out: Vec<LeftOut>,
    pub purged: Option<Purged>,
    /// Why it comes no further.
    pub trouble: Option<ErasureTrouble>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasureTrouble {
    pub why: String,
    pub since: Timestamp,
}

/// What is left of deleted rows in the database's own files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purged {
    /// Nothing.
    Done,
    /// Remains that a person has to end: the file is too large to be rewritten while it is in use.
    TooLarge,
    /// The database does it by itself, in time.
    Later,
}

impl Purged {
    pub const ALL: [Self; 3] = [Self::Done, Self::TooLarge, Self::Later];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "DONE",
            Self::TooLarge => "TOO_LARGE",
            Self::Later => "LATER",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }
}
