//! What people put right about an item: its body, its amount, or that it needs nothing any more.

use async_trait::async_trait;

use super::operator_actions::{GONE, SENT};
use super::{ActionResult, Author, ItemState, StatusMove, StoreResult};
use crate::id::Item;
use crate::item::QueueStatus;

#[async_trait]
pub trait Amendments: Send + Sync {
    /// Changes an item that cannot have been done, and only from one of the record statuses that the
    /// amendment names. A run that is under way loses it: after `Yes` nothing goes out of what was.
    async fn amend(
        &self,
        item: &Item,
        amendment: Amendment,
        author: Author,
    ) -> StoreResult<ActionResult>;
}

#[derive(Debug, Clone)]
pub struct Amendment {
    /// As the audit log calls it.
    pub action: &'static str,
    /// The body that this was decided by; refused if it is another by now.
    pub was: String,
    pub body: String,
    /// Another amount, in the same currency.
    pub amount_minor: Option<i64>,
    /// Only an item whose record has one of these statuses is changed.
    pub from: Vec<String>,
    /// It ends with this status, and the queue has nothing more to do; otherwise it stays what it is.
    pub ends_as: Option<String>,
}

impl Amendment {
    /// Why an item is not changed.
    pub fn refusal(&self, found: &ItemState) -> Option<String> {
        if !self.from.contains(&found.record_status) {
            let from = self.from.join(" or ");
            return Some(format!("it is {}, not {from}", found.record_status));
        }
        if found.is_erased {
            return Some(GONE.to_owned());
        }
        found.may_be_done.then(|| SENT.to_owned())
    }

    /// How its record moves.
    pub fn record(&self) -> Option<StatusMove> {
        let (from, to) = (self.from.clone(), self.ends_as.clone()?);
        Some(StatusMove { from, to })
    }

    /// Where the item is then.
    pub fn after(&self, found: &ItemState) -> QueueStatus {
        match found.queue_status {
            status if found.has_ended => status,
            _ if self.ends_as.is_some() => QueueStatus::Cancelled,
            QueueStatus::Claimed | QueueStatus::Dispatched => QueueStatus::Ready,
            status @ (QueueStatus::Ready
            | QueueStatus::Held
            | QueueStatus::Dead
            | QueueStatus::Cancelled) => status,
        }
    }
}

/// Somebody was faster.
pub const CHANGED_MEANWHILE: &str = "it was changed in the meantime; read it again";
