//! Bulks: files of items, taken in as chunks of lines. The chunks are written first, all of them;
//! what is left of them is the work list, and a chunk's end is counted once.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Page, PageFrom, PageToken, StoreResult};
use crate::details::Details;
use crate::id::{BulkId, FlowId, ItemType, LaneName};
use crate::{SignedDuration, Timestamp};

#[async_trait]
pub trait Bulks: Send + Sync {
    /// Begins an upload under an id of the caller's. False if the id is taken.
    async fn open_bulk(&self, bulk: &BulkId, item_type: &ItemType) -> StoreResult<bool>;

    /// Notes what an upload is called by its sender, and who that is.
    async fn name_bulk(&self, bulk: &BulkId, origin: BulkOrigin) -> StoreResult<()>;

    /// Adds a chunk to an upload; the same number again changes nothing. False if the upload is
    /// not open any more.
    async fn add_chunk(&self, bulk: &BulkId, chunk: NewChunk) -> StoreResult<bool>;

    /// Ends an upload: from here on its chunks are work. With a key that another bulk of the type
    /// was closed under, this upload is given up and the other one is told.
    async fn close_bulk(
        &self,
        bulk: &BulkId,
        key: Option<String>,
        digest: String,
    ) -> StoreResult<Closed>;

    /// The bulk that was closed under a key.
    async fn bulk_by_key(&self, item_type: &ItemType, key: &str) -> StoreResult<Option<KnownBulk>>;

    /// Gives an upload up; nothing of it will run. One that was closed stays.
    async fn drop_upload(&self, bulk: &BulkId) -> StoreResult<()>;

    /// Gives up uploads to which nothing was added for longer than `idle`, and removes what those
    /// given up have left, at most so many chunks. Returns how many it removed.
    async fn sweep_uploads(&self, idle: Duration, most: u32) -> StoreResult<u64>;

    /// Chunks of closed bulks that have not ended and do not wait after a failure, the oldest bulk first; after the
    /// files the chunks of feeds, whatever their partition: the one that was read longest ago first. A chunk that fails holds back the later ones of its bulk ([`HELD_BACK`]), and no other bulk.
    async fn chunks_to_do(&self, item_type: &ItemType, limit: u32) -> StoreResult<Vec<ChunkToDo>>;

    /// Notes why a chunk could not be taken in, and that the next try follows after its pause
    /// ([`super::RETRIES`]). Returns the number of tries that have failed; nothing if the chunk has ended.
    async fn chunk_failed(&self, chunk: &ChunkId, why: &str) -> StoreResult<Option<u32>>;

    /// The chunks of the same bulk that come before this one and have not ended, in their order; at most
    /// [`MOST_BEFORE`].
    async fn chunks_before(&self, chunk: &ChunkId) -> StoreResult<ChunksBefore>;

    /// Ends a try without a failure: an earlier chunk comes first. The next try is another flow.
    async fn hold_chunk(&self, chunk: &ChunkId) -> StoreResult<()>;

    /// Notes that a chunk is taken in before an earlier one of its bulk (`BulkView::order_kept`).
    async fn order_lost(&self, bulk: &BulkId) -> StoreResult<()>;

    /// A chunk's text, until it has ended.
    async fn chunk(&self, chunk: &ChunkId) -> StoreResult<Option<Vec<u8>>>;

    /// Ends a chunk: counts it, keeps its errors and drops its text, together. The last one ends
    /// its bulk. False if it had ended before; then nothing was changed.
    async fn finish_chunk(&self, chunk: &ChunkId, end: ChunkEnd) -> StoreResult<bool>;

    async fn bulk(&self, bulk: &BulkId) -> StoreResult<Option<BulkView>>;

    /// All bulks of a type that were not given up, the newest first.
    async fn bulks(
        &self,
        item_type: &ItemType,
        from: PageFrom<PageToken>,
        limit: u32,
    ) -> StoreResult<Page<BulkLine, PageToken>>;

    /// The rejected lines after a line, in their order.
    async fn bulk_errors(
        &self,
        bulk: &BulkId,
        after_line: u64,
        limit: u32,
    ) -> StoreResult<Vec<LineError>>;

    /// What happened to its items since, looking at no more than `at_most` of them.
    async fn bulk_since(
        &self,
        item_type: &ItemType,
        bulk: &BulkId,
        at_most: u32,
    ) -> StoreResult<BulkSince>;

    /// How many bulks have chunks that have not ended.
    async fn bulks_running(&self, item_type: &ItemType) -> StoreResult<u64>;
}

/// Where a bulk comes from, as far as anybody has said so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BulkOrigin {
    pub file_name: Option<String>,
    pub actor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewChunk {
    /// From 1 on, without a gap.
    pub number: u32,
    pub lines: u32,
    pub text: Vec<u8>,
}

const FLOW_PREFIX: &str = "init-bulk-";

/// One chunk of a bulk.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChunkId {
    pub bulk: BulkId,
    pub number: u32,
}

impl ChunkId {
    /// The flow that takes it in. Ids of bulks are unique among all item types.
    pub fn flow(&self) -> FlowId {
        FlowId::new(format!("{FLOW_PREFIX}{}-{}", self.bulk, self.number))
    }

    /// The chunk that a flow has taken in; none if it was no chunk's.
    pub fn of_flow(flow: &FlowId) -> Option<Self> {
        let (bulk, number) = flow.as_str().strip_prefix(FLOW_PREFIX)?.rsplit_once('-')?;
        let (bulk, number) = (BulkId::new(bulk), number.parse().ok()?);
        Some(Self { bulk, number })
    }
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chunk {} of bulk {}", self.number, self.bulk)
    }
}

/// A chunk that is to be taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkToDo {
    pub chunk: ChunkId,
    /// Tries that have ended: they failed, or another chunk came first.
    pub tries: u32,
}

impl ChunkToDo {
    /// The flow of its next try.
    pub fn flow(&self) -> FlowId {
        match self.tries {
            0 => self.chunk.flow(),
            tries => FlowId::new(format!("{}~{}", self.chunk.flow(), tries + 1)),
        }
    }
}

/// Chunks that fail hold back the later ones of their bulk for this long after the first failure of any; then the
/// order is lost, and nobody waits for it any more.
pub const HELD_BACK: Duration = Duration::from_secs(30);
const HELD_BACK_SIGNED: SignedDuration =
    SignedDuration::from_secs(HELD_BACK.as_secs().cast_signed());

/// As many earlier chunks are looked at.
pub const MOST_BEFORE: u32 = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunksBefore {
    pub now: Timestamp,
    pub chunks: Vec<ChunkBefore>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkBefore {
    pub number: u32,
    pub failing_since: Option<Timestamp>,
}

/// Whether a chunk may be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkTurn {
    Now,
    /// Before an earlier one, which has been failing for too long.
    OutOfOrder,
    /// An earlier one is under way.
    Wait,
    /// An earlier one has failed and is tried again.
    HeldBack,
}

impl ChunksBefore {
    /// `is_admitted` knows of chunks that are admitted and have not ended.
    pub fn turn(&self, is_admitted: impl Fn(u32) -> bool) -> ChunkTurn {
        let left = |chunk: &&ChunkBefore| !is_admitted(chunk.number);
        let left: Vec<_> = self.chunks.iter().filter(left).collect();
        let fails_since = left.iter().filter_map(|chunk| chunk.failing_since).min();
        let held = |since| self.now.duration_since(since) <= HELD_BACK_SIGNED;
        if fails_since.is_some_and(held) {
            ChunkTurn::HeldBack
        } else if left.iter().any(|chunk| chunk.failing_since.is_none()) {
            ChunkTurn::Wait
        } else if fails_since.is_some() {
            ChunkTurn::OutOfOrder
        } else {
            ChunkTurn::Now
        }
    }
}

/// A chunk whose last try failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailingChunk {
    pub number: u32,
    pub failed: u32,
    pub why: String,
    /// When it is tried next.
    pub due: Timestamp,
}

/// How closing an upload went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closed {
    /// Its chunks are work now.
    Running,
    /// Another bulk was closed under the key; this one was given up.
    Known(KnownBulk),
    /// The upload was given up before.
    Gone,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownBulk {
    pub bulk: BulkId,
    /// Of the content it was closed with.
    pub digest: String,
}

/// What became of a chunk's lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkEnd {
    /// The accepted ones, each in one sum.
    pub sums: Vec<BulkSum>,
    pub duplicate: u32,
    pub rejected: Vec<LineError>,
}

impl ChunkEnd {
    pub fn accepted(&self) -> u64 {
        self.sums.iter().map(|sum| sum.accepted).sum()
    }
}

/// The accepted items of one lane and currency. Slots and verdicts are those of their admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkSum {
    pub lane: LaneName,
    pub currency: String,
    pub accepted: u64,
    pub amount_minor: i64,
    pub met: u64,
    pub missed: u64,
    pub first_slot: Timestamp,
    pub last_slot: Timestamp,
    /// The first and the last deadline among them.
    pub deadlines: Option<(Timestamp, Timestamp)>,
}

/// A line that was not taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineError {
    pub line: u64,
    /// The item's id, if it could be read.
    pub id: Option<String>,
    pub details: Details,
    /// The line itself, if it is not too long to be kept.
    pub text: Option<String>,
}

/// What happened to the items of a bulk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BulkSince {
    pub buckets: Vec<BulkBucket>,
    /// The first bulk with the same content that was taken in before, and when.
    pub same_before: Option<(BulkId, Timestamp)>,
}

/// Items of a bulk with one status, held or not, in one currency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkBucket {
    pub status: String,
    pub held: bool,
    pub currency: String,
    pub count: u64,
    pub amount_minor: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkState {
    Uploading,
    Running,
    Done,
}

impl BulkState {
    pub const ALL: [Self; 3] = [Self::Uploading, Self::Running, Self::Done];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Uploading => "UPLOADING",
            Self::Running => "RUNNING",
            Self::Done => "DONE",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkView {
    pub bulk: BulkId,
    pub item_type: ItemType,
    pub origin: BulkOrigin,
    pub state: BulkState,
    /// Uploaded so far.
    pub lines: u64,
    pub accepted: u64,
    pub duplicate: u64,
    pub rejected: u64,
    pub opened_at: Timestamp,
    /// When the upload was complete.
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// By lane and currency.
    pub sums: Vec<BulkSum>,
    /// Its items were given slots in the order of the file, so far.
    pub order_kept: bool,
    /// The chunk that has failed most often, if any does.
    pub failing: Option<FailingChunk>,
}

/// A bulk in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkLine {
    pub bulk: BulkId,
    pub origin: BulkOrigin,
    pub state: BulkState,
    /// Uploaded so far.
    pub lines: u64,
    pub accepted: u64,
    pub duplicate: u64,
    pub rejected: u64,
    pub opened_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

impl BulkLine {
    pub fn page_token(&self) -> PageToken {
        PageToken::new(self.opened_at.as_microsecond(), &self.bulk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_goes_when_every_earlier_one_is_admitted_or_has_failed_for_too_long() {
        use ChunkTurn::{HeldBack, Now, OutOfOrder, Wait};
        const FRESH: Option<i64> = Some(10);
        const OLD: Option<i64> = Some(31);
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        for (before, turn) in [
            (vec![], Now),
            (vec![(1, None)], Now),
            (vec![(2, None)], Wait),
            (vec![(1, None), (2, None)], Wait),
            (vec![(2, FRESH)], HeldBack),
            (vec![(2, None), (3, FRESH)], HeldBack),
            (vec![(2, OLD)], OutOfOrder),
            (vec![(2, OLD), (3, None)], Wait),
            (vec![(2, None), (3, OLD)], Wait),
            (vec![(2, OLD), (3, FRESH)], OutOfOrder),
        ] {
            let chunk = |(number, secs): &(u32, Option<i64>)| ChunkBefore {
                number: *number,
                failing_since: secs.map(|secs| now - SignedDuration::from_secs(secs)),
            };
            let chunks = before.iter().map(chunk).collect();
            let found = ChunksBefore { now, chunks }.turn(|number| number == 1);
            assert_eq!(found, turn, "{before:?}");
        }
    }

    #[test]
    fn a_flow_tells_whose_chunk_it_took_in() {
        for (bulk, number) in [("b", 1), ("2f0c-11-x", 1000)] {
            let bulk = BulkId::new(bulk);
            let chunk = ChunkId { bulk, number };
            assert_eq!(ChunkId::of_flow(&chunk.flow()), Some(chunk));
        }
        for other in [
            "init-payment-b-1",
            "init-bulk-b",
            "init-bulk-b-",
            "init-bulk-b-x",
            "b-1",
        ] {
            assert_eq!(ChunkId::of_flow(&FlowId::new(other)), None, "{other}");
        }
    }
}
