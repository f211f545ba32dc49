//! A person's wish that an item is placed anew, as both stores carry it out.

use tollgate_core::Timestamp;
use tollgate_core::id::Item;
use tollgate_core::ports::{Author, Found, StatusMove};

/// Another slot for what waits; or, with a move of its record, for what has ended.
#[derive(Debug)]
pub(crate) struct Anew {
    pub(crate) item: Item,
    pub(crate) requested: Timestamp,
    pub(crate) reopened: Option<StatusMove>,
    pub(crate) author: Author,
}

impl Anew {
    pub(crate) fn refusal(&self, found: &Found) -> Option<String> {
        match &self.reopened {
            None => found.refuses_reschedule(),
            Some(status) => found.refuses_reopen(status),
        }
    }

    /// As the audit log calls it.
    pub(crate) fn action(&self) -> &'static str {
        match &self.reopened {
            None => "RESCHEDULED",
            Some(_) => "REOPENED",
        }
    }
}
