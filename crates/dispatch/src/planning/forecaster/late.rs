//! What will be late: on a lane, and of what was taken in with a file. Counted to the item, once per timetable
//! for all who ask, so what is told is as old as the timetable and no older.

use std::collections::HashMap;
use std::time::Duration;

use tollgate_core::id::{BulkId, ItemType, LaneName};
use tollgate_core::ports::{Amount, Pile, StoreResult, Tight};
use tollgate_core::{SignedDuration, Timestamp};

use super::{Forecaster, LaneForecast};

/// A moment more than what is asked for, so that nothing is lost to rounding.
const MOMENT: Duration = Duration::from_millis(1);

/// What will be late on a lane.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Late {
    /// Sent after its deadline, or held.
    pub count: u64,
    /// With a deadline, and no time can be told.
    pub untold: u64,
    pub with_deadline: u64,
    /// What is in `count` and `untold`, with its amounts; the oldest is the first deadline.
    pub at_risk: Pile,
    pub as_of: Timestamp,
}

/// The same of what was taken in with a bulk and has not been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateInBulk {
    pub count: u64,
    pub untold: u64,
    pub as_of: Timestamp,
}

/// What was counted by a lane's timetable of the same `as_of`.
#[derive(Default)]
pub(super) struct Counted {
    lane: Option<Late>,
    bulks: HashMap<BulkId, LateInBulk>,
}

impl Late {
    fn note(&mut self, it: &Tight) {
        self.at_risk.add(Amount {
            currency: it.currency.clone(),
            count: 1,
            amount_minor: it.amount_minor,
        });
        let first = self.at_risk.oldest.get_or_insert(it.deadline);
        *first = it.deadline.min(*first);
    }
}

impl Forecaster {
    /// What will be late on a lane, to the item; one count for all who ask.
    pub async fn late(&self, name: &LaneName) -> StoreResult<Late> {
        let kept = self.kept(name);
        let mut kept = kept.lock().await;
        let Some(forecast) = self.forecast(name, &mut kept, None).await? else {
            return Ok(Late::default());
        };
        self.counted(name, &forecast, &mut kept.late).await
    }

    /// What of a bulk's items on a lane will be late, to the item. They are looked at only if anything on the
    /// lane will be; `None` if there is no such lane.
    pub async fn late_in_bulk(
        &self,
        name: &LaneName,
        item_type: &ItemType,
        bulk: &BulkId,
    ) -> StoreResult<Option<LateInBulk>> {
        let kept = self.kept(name);
        let mut kept = kept.lock().await;
        let Some(forecast) = self.forecast(name, &mut kept, None).await? else {
            return Ok(None);
        };
        let late = self.counted(name, &forecast, &mut kept.late).await?;
        if let Some(known) = kept.late.bulks.get(bulk) {
            return Ok(Some(*known));
        }
        let mut told = LateInBulk {
            count: 0,
            untold: 0,
            as_of: late.as_of,
        };
        if late.count + late.untold > 0 {
            let slack = slack(&forecast);
            let tight = self.store.tight_in_bulk(name, item_type, bulk, slack);
            for it in tight.await? {
                let meets = meets(&forecast, &it);
                told.count += u64::from(meets == Some(false));
                told.untold += u64::from(meets.is_none());
            }
        }
        kept.late.bulks.insert(bulk.clone(), told);
        Ok(Some(told))
    }

    async fn counted(
        &self,
        name: &LaneName,
        forecast: &LaneForecast,
        counted: &mut Counted,
    ) -> StoreResult<Late> {
        let known = counted.lane.as_ref();
        if let Some(late) = known.filter(|late| late.as_of == forecast.table.as_of) {
            return Ok(late.clone());
        }
        let late = self.count_late(name, forecast).await?;
        *counted = Counted {
            lane: Some(late.clone()),
            bulks: HashMap::new(),
        };
        Ok(late)
    }

    /// Only what is close to its deadline is looked at.
    async fn count_late(&self, name: &LaneName, forecast: &LaneForecast) -> StoreResult<Late> {
        let with_deadline = self.store.with_deadline(name).await?;
        let mut late = Late {
            with_deadline,
            as_of: forecast.table.as_of,
            ..Late::default()
        };
        for it in self.store.tight(name, slack(forecast)).await? {
            let meets = meets(forecast, &it);
            late.count += u64::from(meets == Some(false));
            late.untold += u64::from(meets.is_none());
            if meets != Some(true) {
                late.note(&it);
            }
        }
        Ok(late)
    }
}

/// Whoever has more time than this between slot and deadline is in time. What has no time has no verdict,
/// wherever its deadline lies.
fn slack(forecast: &LaneForecast) -> SignedDuration {
    let table = &forecast.table;
    match table.drained() {
        Ok(_) if forecast.off.is_empty() => {
            table.longest_delay() + signed(table.way) + signed(MOMENT)
        }
        _ => SignedDuration::MAX,
    }
}

fn meets(forecast: &LaneForecast, it: &Tight) -> Option<bool> {
    if forecast.off.contains_key(&it.item_type) {
        return None;
    }
    forecast.table.meets(it.due, it.deadline).ok()
}

fn signed(time: Duration) -> SignedDuration {
    SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
}
