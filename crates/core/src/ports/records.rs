//! Records: the business state of items, as people ask about it.

use async_trait::async_trait;

use super::{AuditEntry, ChunkId, Page, Placed, StoreError, StoreResult, USUAL_ENDS, split_rules};
use crate::Timestamp;
use crate::archive::{ArchiveDay, ArchivedAttempt, ArchivedItem};
use crate::erasure::is_erased;
use crate::id::{BatchId, BulkId, FlowId, Item, ItemId, ItemType, LaneName};
use crate::item::QueueStatus;
use crate::money::Money;
use crate::outcome::{AttemptKind, AttemptState};

#[async_trait]
pub trait Records: Send + Sync {
    /// Everything that is known of an item, in one consistent read: from the hot tables, or else from the archive in
    /// the database ([`ItemView::archived`]), if its id is remembered there.
    async fn item(&self, item: &Item) -> StoreResult<Option<ItemView>>;

    /// The body of each of these items, in their order; none of an item that is not there.
    async fn bodies(&self, items: &[Item]) -> StoreResult<Vec<Option<String>>>;

    /// Items in the order of their ids. The bulk, or else the owner, or else the status, is served by an
    /// index; the rest is a filter, and so may be a status in which nearly all items end ([`super::USUAL_ENDS`]).
    async fn records(&self, wanted: RecordsWanted) -> StoreResult<Page<RecordLine, ItemId>>;

    /// An owner's items with one of these statuses, in no order: of those that were written to be
    /// found by their owner.
    async fn owned(&self, wanted: OwnedWanted) -> StoreResult<Vec<ItemId>>;
}

#[derive(Debug, Clone)]
pub struct OwnedWanted {
    pub item_type: ItemType,
    pub owner: String,
    pub statuses: Vec<String>,
    pub limit: u32,
}

#[derive(Debug, Clone)]
pub struct RecordsWanted {
    pub item_type: ItemType,
    pub status: Option<String>,
    pub lane: Option<LaneName>,
    /// Those of this owner, if they were written to be found by their owner.
    pub owner: Option<String>,
    /// Those that were taken in with it.
    pub bulk: Option<BulkId>,
    pub after: Option<ItemId>,
    pub limit: u32,
}

impl RecordsWanted {
    pub fn all(item_type: ItemType, limit: u32) -> Self {
        Self {
            item_type,
            status: None,
            lane: None,
            owner: None,
            bulk: None,
            after: None,
            limit,
        }
    }

    /// Whether rows are read that are not wanted.
    pub fn is_filtered(&self) -> bool {
        let by_another = self.bulk.is_some() || self.owner.is_some();
        self.lane.is_some() || (by_another && self.status.is_some()) || self.is_of_usual_end()
    }

    /// No index need list these.
    pub fn is_of_usual_end(&self) -> bool {
        let status = self.status.as_deref();
        status.is_some_and(|status| USUAL_ENDS.contains(&status))
    }

    /// What of the rows belongs on the page.
    pub fn page(&self, rows: Vec<RecordLine>, asked: u32) -> Page<RecordLine, ItemId> {
        let wanted = |line: &RecordLine| {
            self.lane.as_ref().is_none_or(|lane| *lane == line.lane)
                && self.status.as_ref().is_none_or(|it| *it == line.status)
        };
        Page::of(rows, asked, self.limit, wanted, |line| line.id.clone())
    }
}

/// An item in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordLine {
    pub id: ItemId,
    pub status: String,
    pub money: Money,
    pub lane: LaneName,
    pub queue_status: QueueStatus,
    pub run: u32,
    pub slot: Timestamp,
    /// When it is due: its slot, unless it was put back.
    pub due: Timestamp,
    pub deadline: Option<Timestamp>,
    pub has_ended: bool,
    /// The last turn that any run of it was given.
    pub last_turn: Option<Timestamp>,
    /// Whether its present run was given one.
    pub was_sent: bool,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct ItemView {
    pub item: Item,
    pub status: String,
    pub money: Money,
    pub content_hash: String,
    /// What was taken in, and what its exec flow is given; none if it was lost.
    pub body: Option<String>,
    pub lane: LaneName,
    pub queue_status: QueueStatus,
    pub run: u32,
    /// The slot: when it was planned to run.
    pub slot: Timestamp,
    pub requested: Timestamp,
    pub deadline: Option<Timestamp>,
    /// Rather HELD than sent after the deadline.
    pub hold_if_late: bool,
    /// When it is due now: its slot, or the time it was put back to.
    pub due: Timestamp,
    pub init_flow: FlowId,
    pub exec_flow: Option<FlowId>,
    /// The dispatcher's batch that it was last claimed with.
    pub dispatch_batch: Option<BatchId>,
    pub retry_count: u32,
    pub last_error: Option<String>,
    pub created_at: Timestamp,
    pub claimed_at: Option<Timestamp>,
    pub dispatched_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// The rules that a person let it pass, each in the words it had then.
    pub passed_rules: Vec<String>,
    pub attempts: Vec<AttemptView>,
    /// The archive that it comes from; none for an item in the hot tables.
    pub archived: Option<FromArchive>,
}

/// What the archive has beside the item itself.
#[derive(Debug, Clone)]
pub struct FromArchive {
    /// When it ended.
    pub day: ArchiveDay,
    /// What it was taken in with was erased.
    pub erased: bool,
    /// Oldest first.
    pub audit: Vec<AuditEntry>,
}

impl ItemView {
    /// How often it was sent, whatever became of it.
    pub fn sends(&self) -> u32 {
        let sends = |attempt: &&AttemptView| attempt.kind == AttemptKind::Send;
        self.attempts.iter().filter(sends).fold(0, |sum, _| sum + 1)
    }

    /// Whether a person's data were erased from it; nobody can tell what it was taken in with.
    pub fn is_erased(&self) -> bool {
        is_erased(&self.content_hash) || self.archived.as_ref().is_some_and(|from| from.erased)
    }

    /// An item of the archive, as if it were hot.
    pub fn of_archived(item: ArchivedItem) -> StoreResult<Self> {
        let name = item.item();
        let unknown = |word: &str| {
            StoreError::Bug(format!(
                "the archive has {name} with the unknown word {word:?}"
            ))
        };
        let queue_status = QueueStatus::parse(&item.queue_status);
        let archived = FromArchive {
            day: item.day(),
            erased: item.content_hash.is_none(),
            audit: item.audit_entries(),
        };
        let attempt = |attempt: &ArchivedAttempt| AttemptView::of_archived(attempt);
        let attempts: Option<Vec<AttemptView>> = item.attempts.iter().map(attempt).collect();
        Ok(Self {
            queue_status: queue_status.ok_or_else(|| unknown(&item.queue_status))?,
            attempts: attempts.ok_or_else(|| unknown("of an attempt"))?,
            archived: Some(archived),
            item: name.clone(),
            status: item.status,
            money: Money {
                minor: item.amount_minor,
                currency: item.currency,
            },
            content_hash: item.content_hash.unwrap_or_default(),
            body: item.body,
            lane: item.lane,
            run: item.run,
            slot: item.scheduled_time,
            requested: item.requested_time,
            deadline: item.deadline,
            hold_if_late: item.hold_after.is_some(),
            due: item.scheduled_exec_time,
            init_flow: FlowId::new(item.init_flow),
            exec_flow: item.exec_flow.map(FlowId::new),
            dispatch_batch: item.dispatch_batch_id.map(BatchId::new),
            retry_count: item.retry_count,
            last_error: item.last_error,
            created_at: item.created_at,
            claimed_at: item.claimed_at,
            dispatched_at: item.dispatched_at,
            finished_at: Some(item.finished_at),
            passed_rules: split_rules(item.passed_rules.as_deref()),
        })
    }

    /// The bulk that it came in.
    pub fn bulk(&self) -> Option<BulkId> {
        ChunkId::of_flow(&self.init_flow).map(|chunk| chunk.bulk)
    }

    /// The answer its admission got.
    pub fn placed(&self) -> Placed {
        let (lane, init_flow) = (self.lane.clone(), self.init_flow.clone());
        Placed::new(lane, self.slot, self.deadline, init_flow)
    }
}

#[derive(Debug, Clone)]
pub struct AttemptView {
    pub kind: AttemptKind,
    pub state: AttemptState,
    pub run: u32,
    /// The idempotency key that it went out under, or asked about.
    pub key: String,
    pub turn_at: Timestamp,
    pub settled_at: Option<Timestamp>,
    pub detail: String,
    /// Refused, and a person has had its item tried again since.
    pub reopened: bool,
}

impl AttemptView {
    /// None if a word of it is not one of ours.
    fn of_archived(attempt: &ArchivedAttempt) -> Option<Self> {
        Some(Self {
            kind: AttemptKind::parse(&attempt.kind)?,
            state: AttemptState::parse(&attempt.state)?,
            run: attempt.run,
            key: attempt.idempotency_key.clone(),
            turn_at: attempt.turn_at,
            settled_at: attempt.settled_at,
            detail: attempt.detail.clone(),
            reopened: attempt.reopened,
        })
    }

    /// Whether another key may be asked: it was declined, or a person wants it tried again.
    pub fn makes_way(&self) -> bool {
        self.state == AttemptState::Declined || self.reopened
    }
}
