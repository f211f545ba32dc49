//! Requests: items as they were accepted, until they are planned. A request is durable before its caller is
//! answered, and the transaction that admits or refuses the item ends it ([`super::Queue::admit`]).

use std::time::Duration;

use async_trait::async_trait;

use super::{ActionResult, Admission, Author, NewItem, StoreResult};
use crate::Timestamp;
use crate::details::Details;
use crate::erasure::is_erased;
use crate::id::{FlowId, Item, ItemId, ItemType};
use crate::money::Money;
use crate::retry;

/// How long a request, or a chunk of a file, waits after each try that failed. There is no last try:
/// what was accepted is never given up.
pub const RETRIES: retry::Policy = retry::Policy {
    max_attempts: u32::MAX,
    first_pause: Duration::from_secs(1),
    factor: retry::TWICE,
    longest_pause: Duration::from_mins(5),
};

/// A try that tells nothing is looked at after this time.
pub const LOOK_AFTER: Duration = Duration::from_secs(10);

#[async_trait]
pub trait Requests: Send + Sync {
    /// Accepts a request: durable when this returns. An item that is planned, or a request that is known, changes
    /// nothing, whatever its content. One that was refused gives way to other content, or to the same where
    /// `again` says so.
    async fn accept(&self, request: NewRequest) -> StoreResult<Acceptance>;

    async fn request(&self, item: &Item) -> StoreResult<Option<RequestView>>;

    /// Waiting requests whose next try, or next look, is due; the longest due first.
    async fn requests_due(&self, item_type: &ItemType, limit: u32)
    -> StoreResult<Vec<RequestView>>;

    /// Counts another try after try number `tries`, to be looked at after [`LOOK_AFTER`]. False if another
    /// process has counted it, or the request has ended.
    async fn begin_try(&self, item: &Item, tries: u32) -> StoreResult<bool>;

    /// Try number `tries` is still under way: looks at it again after [`LOOK_AFTER`].
    async fn look_later(&self, item: &Item, tries: u32) -> StoreResult<()>;

    /// Notes why a try failed, and that the next one follows after its pause ([`RETRIES`]). Returns the number of
    /// tries so far; nothing if no such request waits.
    async fn try_failed(
        &self,
        item: &Item,
        content_hash: &str,
        why: &str,
    ) -> StoreResult<Option<u32>>;

    /// Ends a request with a verdict about its content. One that has ended stays as it is.
    async fn refuse(&self, item: &Item, refusal: Refusal) -> StoreResult<()>;

    /// Withdraws a request that waits. Its id stays used.
    async fn withdraw(&self, item: &Item, author: Author) -> StoreResult<ActionResult>;

    /// Gives a request that waits another time, as if it had been asked for: whichever try plans it, it is planned
    /// from there.
    async fn move_request(
        &self,
        item: &Item,
        to: Timestamp,
        author: Author,
    ) -> StoreResult<ActionResult>;

    /// Requests in the order of their ids; those that were refused are left out.
    async fn requests(&self, wanted: RequestsWanted) -> StoreResult<Vec<RequestView>>;

    /// What was accepted and is not planned yet.
    async fn unplanned(&self, item_type: &ItemType) -> StoreResult<Unplanned>;
}

#[derive(Debug, Clone)]
pub struct NewRequest {
    pub item: Item,
    pub content_hash: String,
    pub money: Money,
    /// The request itself, for every try.
    pub document: String,
    /// Judge once more what was refused before.
    pub again: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acceptance {
    New(RequestView),
    /// Accepted before, perhaps with other content.
    Known(RequestView),
    /// Its item is planned.
    Planned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestState {
    Waiting,
    /// A verdict about its content; other content may follow.
    Refused,
    /// Withdrawn by a person.
    Cancelled,
}

impl RequestState {
    pub const ALL: [Self; 3] = [Self::Waiting, Self::Refused, Self::Cancelled];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "WAITING",
            Self::Refused => "REFUSED",
            Self::Cancelled => "CANCELLED",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestView {
    pub id: ItemId,
    pub state: RequestState,
    pub content_hash: String,
    pub money: Money,
    /// Empty once it has ended.
    pub document: String,
    /// Of a refused one: why, and whether it is not valid at all (a rule refuses what is).
    pub details: Details,
    pub invalid: bool,
    /// 1 for the first content under this id, 2 for its first correction.
    pub correction: u32,
    /// Tries that were begun.
    pub tries: u32,
    /// The number of the last try that is known to have failed; 0 if none is.
    pub failed_try: u32,
    pub last_error: Option<String>,
    /// The time that a person gave it instead of its own.
    pub moved_to: Option<Timestamp>,
    pub accepted_at: Timestamp,
    /// When it is tried, or looked at, next.
    pub due: Timestamp,
    /// When it was refused or cancelled. What was planned has the end of its item.
    pub ended_at: Option<Timestamp>,
}

impl RequestView {
    /// Whether the try that was begun last is known to have failed.
    pub fn has_failed(&self) -> bool {
        self.failed_try == self.tries
    }
}

/// A verdict about a request's content.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub content_hash: String,
    /// The flow that has judged it.
    pub init_flow: FlowId,
    pub details: Details,
    /// Not valid at all, whatever the rules say.
    pub invalid: bool,
}

#[derive(Debug, Clone)]
pub struct RequestsWanted {
    pub item_type: ItemType,
    /// Only these; all but refused ones without it.
    pub state: Option<RequestState>,
    pub after: Option<ItemId>,
    pub limit: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unplanned {
    /// Single requests that wait, and since when the first of them does.
    pub requests: u64,
    pub since: Option<Timestamp>,
    /// Lines of files that were accepted and not yet judged.
    pub lines: u64,
    /// Requests and chunks whose last try failed.
    pub failing: u64,
}

/// A request as the admission of an item under its id finds it.
#[derive(Debug, Clone)]
pub struct FoundRequest {
    pub state: RequestState,
    pub content_hash: String,
    /// Of a refused one: the flow that has judged it, and why.
    pub init_flow: Option<FlowId>,
    pub details: Details,
    /// The time that a person gave it instead of its own.
    pub moved_to: Option<Timestamp>,
}

impl FoundRequest {
    /// The time from which this item is planned.
    pub fn requested(&self, item: &NewItem) -> Option<Timestamp> {
        let moved_to = self.moved_to.filter(|_| self.is_for(item));
        moved_to.or(item.requested)
    }

    /// Whether this item is what was requested, so that its admission ends the request.
    pub fn is_for(&self, item: &NewItem) -> bool {
        self.state == RequestState::Waiting && self.has_content_of(item)
    }

    /// The answer for an item that is not to be judged, because of this request.
    pub fn answer(&self, item: &NewItem) -> Option<Admission> {
        if is_erased(&self.content_hash) {
            return Some(Admission::Erased);
        }
        let same = self.has_content_of(item);
        match self.state {
            RequestState::Waiting => (!same).then_some(Admission::Conflict),
            RequestState::Cancelled if same => Some(Admission::Cancelled),
            RequestState::Cancelled => Some(Admission::Conflict),
            // The flow that was told no, and died before it could keep the answer, is told it again.
            RequestState::Refused => {
                let is_own = self.init_flow.as_ref() == Some(&item.init_flow);
                (same && is_own).then(|| Admission::refused_with(&self.details))?
            }
        }
    }

    fn has_content_of(&self, item: &NewItem) -> bool {
        self.content_hash == item.record.content_hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_from_a_second_to_five_minutes_and_never_end() {
        let pauses = [1, 2, 3, 9, 10, 1_000_000].map(|n| RETRIES.next_pause(n).unwrap().as_secs());
        assert_eq!(pauses, [1, 2, 4, 256, 300, 300]);
    }
}
