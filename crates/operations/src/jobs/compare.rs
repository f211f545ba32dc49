//! How much of what was previewed is found again: both are in the order of ids.

use std::collections::VecDeque;
use std::sync::Arc;

use tollgate_core::id::JobId;
use tollgate_core::job::{Candidate, JobAct, JobItem};
use tollgate_core::ports::{Store, StoreResult};

use super::scan::Scan;
use super::{JobError, Wish};

/// How many items are gone, new, or have moved.
pub(super) async fn differences(
    store: &Arc<dyn Store>,
    wish: &Wish,
    job: &JobId,
) -> Result<u64, JobError> {
    let mut scan = Scan::begin(store, wish).await?;
    let mut before = Previewed::of(store, job);
    let mut differences = 0;
    while let Some(page) = scan.next().await? {
        for found in page.into_iter().filter(|found| found.refused.is_none()) {
            differences += before.differences_up_to(wish.act, &found.item).await?;
        }
    }
    Ok(differences + before.rest().await?)
}

/// The items of a preview, one after the other.
struct Previewed<'a> {
    store: &'a Arc<dyn Store>,
    job: &'a JobId,
    next_chunk: u32,
    items: VecDeque<JobItem>,
    is_over: bool,
}

impl<'a> Previewed<'a> {
    fn of(store: &'a Arc<dyn Store>, job: &'a JobId) -> Self {
        Self {
            store,
            job,
            next_chunk: 0,
            items: VecDeque::new(),
            is_over: false,
        }
    }

    /// Those before this item are gone; this one is the same, or moved, or new.
    async fn differences_up_to(&mut self, act: JobAct, item: &Candidate) -> StoreResult<u64> {
        let mut gone = 0;
        loop {
            self.fill().await?;
            let Some(first) = self.items.front() else {
                return Ok(gone + 1);
            };
            if first.id > item.id {
                return Ok(gone + 1);
            }
            let is_it = first.id == item.id;
            let has_moved = act.moved(first, &item.found).is_some();
            self.items.pop_front();
            if is_it {
                return Ok(gone + u64::from(has_moved));
            }
            gone += 1;
        }
    }

    async fn rest(mut self) -> StoreResult<u64> {
        let mut rest = 0;
        loop {
            self.fill().await?;
            if self.items.is_empty() {
                return Ok(rest);
            }
            rest += self.items.len() as u64;
            self.items.clear();
        }
    }

    async fn fill(&mut self) -> StoreResult<()> {
        if self.items.is_empty() && !self.is_over {
            let chunk = self.store.previewed_items(self.job, self.next_chunk);
            self.items = chunk.await?.into();
            self.next_chunk += 1;
            self.is_over = self.items.is_empty();
        }
        Ok(())
    }
}
