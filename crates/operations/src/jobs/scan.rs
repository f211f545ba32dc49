//! What a wish finds: page by page in the order of ids, by the index that serves it best, each item judged by
//! the rules of the act.

use std::collections::HashSet;
use std::sync::Arc;

use tollgate_core::Timestamp;
use tollgate_core::id::{Item, ItemId, StormId};
use tollgate_core::job::{Candidate, JobAct, JobFilter, JobMoves};
use tollgate_core::ports::{CandidatesBy, CandidatesWanted, Store, StoreResult};
use tollgate_domains::payments::{self, PaymentStatus, Sought};

use super::{JobError, Wish};

const PAGE: u32 = 2000;
/// A job looks at no more items than these.
const MOST_LOOKED_AT: u64 = 1_000_000;

pub(super) struct Scan<'a> {
    store: &'a Arc<dyn Store>,
    wish: &'a Wish,
    by: CandidatesBy,
    /// What was refused in the storm that is asked for.
    of_storm: Option<HashSet<ItemId>>,
    moves: JobMoves,
    now: Timestamp,
    after: Option<ItemId>,
    looked_at: u64,
    is_over: bool,
}

/// An item that the filter wants.
pub(super) struct Wanted {
    pub(super) item: Candidate,
    /// Why the act cannot be done to it.
    pub(super) refused: Option<String>,
}

impl<'a> Scan<'a> {
    pub(super) async fn begin(store: &'a Arc<dyn Store>, wish: &'a Wish) -> StoreResult<Self> {
        Ok(Self {
            store,
            wish,
            by: by(wish),
            of_storm: of_storm(store, wish).await?,
            moves: payments::job_moves(),
            now: store.now().await?,
            after: None,
            looked_at: 0,
            is_over: false,
        })
    }

    /// The next few, perhaps none of a page; `None` after the last page.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Wanted>>, JobError> {
        if self.is_over {
            return Ok(None);
        }
        let wanted = CandidatesWanted {
            item_type: self.wish.item_type.clone(),
            by: self.by.clone(),
            after: self.after.clone(),
            limit: PAGE,
        };
        let page = self.store.candidates(wanted).await?;
        let count = page.len() as u64;
        self.looked_at += count;
        self.is_over = count < u64::from(PAGE);
        if self.looked_at > MOST_LOOKED_AT {
            return Err(JobError::TooMany(MOST_LOOKED_AT));
        }
        self.after = page.last().map(|item| item.id.clone());
        let (filter, now) = (&self.wish.filter, self.now);
        let of_storm = &self.of_storm;
        let page = page.into_iter().filter(|item| {
            let is_of_storm = of_storm.as_ref().is_none_or(|ids| ids.contains(&item.id));
            is_of_storm && filter.wants(item, now)
        });
        let page = self.by_documents(page.collect()).await?;
        let judged = page.into_iter().map(|item| Wanted {
            refused: self.wish.act.refuses(&item.found, &self.moves),
            item,
        });
        Ok(Some(judged.collect()))
    }

    async fn by_documents(&self, page: Vec<Candidate>) -> StoreResult<Vec<Candidate>> {
        let filter = &self.wish.filter;
        if !filter.asks_documents() || page.is_empty() {
            return Ok(page);
        }
        let sought = Sought {
            account: filter.account.as_deref(),
            reference: filter.reference.as_deref(),
            gateway: filter.gateway.as_deref(),
        };
        let item = |it: &Candidate| Item::new(&self.wish.item_type, &it.id);
        let items: Vec<Item> = page.iter().map(item).collect();
        let bodies = self.store.bodies(&items).await?;
        let with_bodies = page.into_iter().zip(bodies);
        let fitting = with_bodies.filter(|(_, body)| {
            let body = body.as_deref();
            body.is_some_and(|body| sought.is_in(body))
        });
        Ok(fitting.map(|(item, _)| item).collect())
    }
}

/// They come in the order of their sends, and items in the order of their ids: so all of them at once.
async fn of_storm(store: &Arc<dyn Store>, wish: &Wish) -> StoreResult<Option<HashSet<ItemId>>> {
    let Some(wanted) = wish.filter.storm else {
        return Ok(None);
    };
    let (mut ids, mut after) = (HashSet::new(), None);
    loop {
        let page = store.refused_in(StormId(wanted), &wish.item_type, after, PAGE);
        let page = page.await?;
        ids.extend(page.items.into_iter().map(|refused| refused.id));
        after = page.next;
        if after.is_none() {
            return Ok(Some(ids));
        }
    }
}

/// The narrowest index: the rest of the filter is looked at item by item.
fn by(wish: &Wish) -> CandidatesBy {
    let filter = &wish.filter;
    if let Some(import) = &filter.import {
        return CandidatesBy::Import(import.clone());
    }
    match wish.act {
        JobAct::Replay => CandidatesBy::Dead,
        JobAct::Release => CandidatesBy::Held,
        JobAct::Cancel | JobAct::Reschedule if filter.held == Some(true) => CandidatesBy::Held,
        JobAct::Cancel | JobAct::Reschedule => of_status(filter, PaymentStatus::Scheduled),
        JobAct::Reopen => of_status(filter, PaymentStatus::Rejected),
        JobAct::Ask => of_status(filter, PaymentStatus::InDoubt),
    }
}

fn of_status(filter: &JobFilter, otherwise: PaymentStatus) -> CandidatesBy {
    let status = filter.status.as_deref();
    CandidatesBy::Status(status.unwrap_or(otherwise.as_str()).to_owned())
}
