//! Control totals of a day, summed up from the records themselves: nothing else is proof. That is as
//! dear as the day was busy, so one sum is made at a time, however many ask, and a dear one is told
//! again for ten times as long as it took.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_core::ports::{Store, StoreResult, Total};
use tollgate_domains::{invoices, payments};

/// A sum that takes less than this is made anew for everyone who asks.
const CHEAP: Duration = Duration::from_millis(50);
/// Summing up takes one part of so many of the time at most.
const SHARE: u32 = 10;

/// Everything taken in within a stretch of time, as it was at one moment.
#[derive(Debug)]
pub struct DayTotals {
    pub as_of: Timestamp,
    pub payments: Vec<Total>,
    pub invoices: Vec<Total>,
}

pub struct Totals {
    store: Arc<dyn Store>,
    known: Mutex<HashMap<(Timestamp, Timestamp), Known>>,
}

impl std::fmt::Debug for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Totals").finish_non_exhaustive()
    }
}

struct Known {
    told: Arc<DayTotals>,
    good_until: Instant,
}

impl Totals {
    pub fn new(store: &Arc<dyn Store>) -> Self {
        Self {
            store: Arc::clone(store),
            known: Mutex::default(),
        }
    }

    /// Whoever comes while a sum is made waits for it.
    pub async fn of(&self, from: Timestamp, to: Timestamp) -> StoreResult<Arc<DayTotals>> {
        let mut known = self.known.lock().await;
        known.retain(|_, day| Instant::now() < day.good_until);
        if let Some(day) = known.get(&(from, to)) {
            return Ok(Arc::clone(&day.told));
        }
        let begun = Instant::now();
        let told = Arc::new(self.sum(from, to).await?);
        let took = begun.elapsed();
        if took >= CHEAP {
            let day = Known {
                told: Arc::clone(&told),
                good_until: Instant::now() + took * SHARE,
            };
            known.insert((from, to), day);
        }
        Ok(told)
    }

    async fn sum(&self, from: Timestamp, to: Timestamp) -> StoreResult<DayTotals> {
        Ok(DayTotals {
            as_of: self.store.now().await?,
            payments: self.store.totals(&payments::item_type(), from, to).await?,
            invoices: self.store.totals(&invoices::item_type(), from, to).await?,
        })
    }
}
