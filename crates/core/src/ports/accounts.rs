//! Accounts: control totals and the audit trail.

use async_trait::async_trait;

use super::{Counted, Page, StoreResult};
use crate::Timestamp;
use crate::actor::Kind;
use crate::id::{BatchId, Item, ItemType};
use crate::item::QueueStatus;

#[async_trait]
pub trait Accounts: Send + Sync {
    /// Every item of a type accepted in `[from, to)`, in exactly one bucket: by status and currency. A request
    /// that is not planned yet counts as INITIALIZING, by when it was accepted. So do the lines of a file that
    /// are not judged yet: nobody has read their amounts, so they count without one, as XXX (no currency).
    /// What is held and not in doubt counts as HELD, whatever its status. Archiving changes no total of whole quarters
    /// of an hour.
    async fn totals(
        &self,
        item_type: &ItemType,
        from: Timestamp,
        to: Timestamp,
    ) -> StoreResult<Vec<Total>>;

    /// How many items of a type the queue holds in each state that is not an end: READY, CLAIMED,
    /// DISPATCHED and not finished, HELD, DEAD; those that hold none too.
    async fn depths(&self, item_type: &ItemType) -> StoreResult<Vec<(QueueStatus, u64)>>;

    async fn write_audit(&self, entry: NewAudit) -> StoreResult<()>;

    /// The audit log, newest first; from `before` on it goes the other way, the oldest first. Item, action, actor,
    /// people and times are each served by an index; beside each other, the first of these is, and the rest are
    /// filters.
    async fn audit_log(&self, wanted: AuditWanted) -> StoreResult<Page<AuditEntry, i64>>;

    /// The newest entries, of one item or of all.
    async fn audit(&self, item: Option<&Item>, limit: u32) -> StoreResult<Vec<AuditEntry>> {
        let wanted = AuditWanted {
            item: item.cloned(),
            limit,
            ..AuditWanted::default()
        };
        Ok(self.audit_log(wanted).await?.items)
    }
}

#[derive(Debug, Clone, Default)]
pub struct AuditWanted {
    pub item: Option<Item>,
    pub actor: Option<String>,
    pub action: Option<String>,
    pub by: Option<Kind>,
    /// From this moment on.
    pub from: Option<Timestamp>,
    /// Before this moment.
    pub to: Option<Timestamp>,
    /// Older than this entry.
    pub after: Option<i64>,
    /// Newer than this entry, and the nearest first.
    pub before: Option<i64>,
    pub limit: u32,
}

impl AuditWanted {
    /// Whether some rows that an index finds are left out.
    pub fn is_filtered(&self) -> bool {
        let by_index = [
            self.item.is_some(),
            self.action.is_some(),
            self.actor.is_some(),
            self.by.is_some(),
        ];
        let asked = by_index.into_iter().filter(|is_asked| *is_asked).count();
        let has_times = self.from.is_some() || self.to.is_some();
        asked > 1 || self.by == Some(Kind::Machine) || has_times
    }

    /// The list whose entries are those that are wanted; none if each would have to be looked at.
    pub fn counted(&self) -> Option<Counted> {
        if self.is_filtered() {
            return None;
        }
        Some(match (&self.item, &self.action, &self.actor, self.by) {
            (Some(item), _, _, _) => Counted::AuditOfItem(item.clone()),
            (None, Some(action), _, _) => Counted::AuditOfAction(action.clone()),
            (None, None, Some(actor), _) => Counted::AuditOfActor(actor.clone()),
            (None, None, None, Some(_)) => Counted::AuditOfPeople,
            (None, None, None, None) => Counted::Audit,
        })
    }

    /// What of the rows belongs on the page.
    pub fn page(&self, rows: Vec<AuditEntry>, asked: u32) -> Page<AuditEntry, i64> {
        let fits = |wish: &Option<String>, is: &String| wish.as_ref().is_none_or(|wish| wish == is);
        let wanted = |entry: &AuditEntry| {
            fits(&self.actor, &entry.actor)
                && fits(&self.action, &entry.action)
                && self.by.is_none_or(|kind| kind.has(&entry.actor))
                && self.from.is_none_or(|from| entry.at >= from)
                && self.to.is_none_or(|to| entry.at < to)
        };
        Page::of(rows, asked, self.limit, wanted, |entry| entry.id)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Total {
    pub status: String,
    pub currency: String,
    pub count: u64,
    pub amount_minor: i64,
}

#[derive(Debug, Clone, Default)]
pub struct NewAudit {
    pub item: Option<Item>,
    pub action: String,
    pub actor: String,
    pub detail: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub id: i64,
    pub at: Timestamp,
    /// Of the dispatcher, if it is about what one claim has taken.
    pub batch: Option<BatchId>,
    pub item: Option<Item>,
    pub action: String,
    pub status_before: Option<String>,
    pub status_after: Option<String>,
    pub actor: String,
    pub detail: String,
}
