//! The planner: what a lane's queue will do, what it would do under another configuration, and
//! placing it anew. The arithmetic is that of assignment (`core/src/forecast.rs`, `slot.rs`).

use std::sync::Arc;
use std::time::Duration;

use rust_decimal::Decimal;
use tokio::sync::Mutex;
use tollgate_core::actor;
use tollgate_core::calendar::Calendar;
use tollgate_core::forecast::{self, Enough, Forecast, Group, Taken};
use tollgate_core::id::{ItemType, LaneName};
use tollgate_core::lane::{Lane, LaneChange};
use tollgate_core::lane_in_force::{LaneInForce, no_such_lane};
use tollgate_core::ports::{
    Author, QueuePosition, Recounted, Store, StoreError, StoreResult, Waiting,
};
use tollgate_core::slot::{assign, steady_random};
use tollgate_core::{SignedDuration, Timestamp};

use crate::planning::forecaster::{LEAST_WAY, NEAR, drained_under};
use crate::planning::replan_effect::{Moved, Plans, ReplanEffect};

/// Read or placed in one step.
const CHUNK: u32 = 1000;
/// No more items than this are held in memory to count what a replan does to them.
const MOST_PREVIEWED: usize = 5_000_000;
const MOST_WINDOWS: u32 = 10_000_000;
/// A change that keeps everything that waits for so much longer asks for confirmation.
const STRANDED: SignedDuration = SignedDuration::from_hours(7 * 24);

pub struct Planner {
    store: Arc<dyn Store>,
    item_types: Vec<ItemType>,
    margin: Decimal,
    reckoning: Mutex<()>,
}

impl std::fmt::Debug for Planner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Planner")
            .field("item_types", &self.item_types)
            .finish_non_exhaustive()
    }
}

/// Items that do not exist yet.
#[derive(Debug, Clone, Copy)]
pub struct ImaginedLoad {
    pub count: u64,
    pub at: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
}

impl Planner {
    pub fn new(store: Arc<dyn Store>, item_types: Vec<ItemType>, margin: Decimal) -> Self {
        Self {
            store,
            item_types,
            margin,
            reckoning: Mutex::default(),
        }
    }

    pub fn margin(&self) -> Decimal {
        self.margin
    }

    /// Seconds of arithmetic, off the threads that serve requests and turns, one at a time.
    async fn reckon<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> StoreResult<T> {
        let _alone = self.reckoning.lock().await;
        let reckoned = tokio::task::spawn_blocking(work).await;
        reckoned.map_err(|e| StoreError::Bug(e.to_string()))
    }

    /// The lane as it is, or as it would be after a change.
    pub async fn lane(&self, name: &LaneName, change: LaneChange) -> StoreResult<LaneInForce> {
        let lane = self.store.lane(name).await?;
        let lane = lane.ok_or_else(|| StoreError::Invalid(no_such_lane(name)))?;
        self.changed(lane, change).await
    }

    async fn changed(&self, lane: LaneInForce, change: LaneChange) -> StoreResult<LaneInForce> {
        let mut lane = lane;
        if change == LaneChange::default() {
            return Ok(lane);
        }
        lane.lane = Lane::changed(Some(&lane.lane), change).map_err(StoreError::Invalid)?;
        lane.calendar = match &lane.lane.calendar {
            None => None,
            Some(wanted) => {
                let all = self.store.calendars().await?;
                let found = all.into_iter().find(|calendar| calendar.name == *wanted);
                let read = found.and_then(|calendar| Calendar::read(&calendar.text).ok());
                let none = || tollgate_core::calendar::no_such_calendar(wanted);
                Some(Arc::new(read.ok_or_else(|| StoreError::Invalid(none()))?))
            }
        };
        Ok(lane)
    }

    /// What a replan would do, under this configuration of the lane: everything that waits is placed again, and
    /// both plans are played at the gate, behind what is under way. `way`: from slot to turn.
    pub async fn preview(&self, lane: &LaneInForce, way: Duration) -> StoreResult<ReplanEffect> {
        let now = self.store.now().await?;
        let (waiting, mut taken) = self.queue(lane, now).await?;
        let found = self.store.unsent(&lane.name, &self.item_types, 0).await?;
        let found = found.ok_or_else(|| StoreError::Invalid(no_such_lane(&lane.name)))?;
        let (lane, margin) = (lane.clone(), self.margin);
        self.reckon(move || {
            let (windows, spread) = (lane.windows(margin), lane.lane.spread);
            let places: Vec<Option<Timestamp>> = waiting
                .iter()
                .map(|item| {
                    let (from, random) = (item.requested.max(now), steady_random(&item.id));
                    let Ok(place) = assign(&windows, spread, from, random, &mut taken);
                    place.map(|place| place.scheduled)
                })
                .collect();
            let moved = waiting.iter().zip(places);
            let moved: Vec<Moved> = moved.map(|(item, to)| Moved::new(item, to)).collect();
            let plans = Plans {
                before: &found,
                after: &lane,
                margin,
                way,
            };
            plans.effect(&moved)
        })
        .await
    }

    /// The pair of plan and limit with which nothing that waits would miss its deadline.
    pub async fn enough(&self, lane: &LaneInForce, way: Duration) -> StoreResult<Option<Enough>> {
        let now = self.store.now().await?;
        let (waiting, taken) = self.queue(lane, now).await?;
        let mut groups: Vec<Group> = vec![];
        for item in waiting {
            let from = item.requested.max(now);
            let deadline = item.deadline.map(|deadline| deadline - way);
            match groups.last_mut() {
                Some(group) if group.from == from && group.deadline == deadline => group.count += 1,
                _ => groups.push(Group {
                    from,
                    deadline,
                    count: 1,
                }),
            }
        }
        let (lane, margin) = (lane.clone(), self.margin);
        self.reckon(move || forecast::enough(&lane, margin, &taken, &groups))
            .await
    }

    /// When items that do not exist yet would run, behind everything that has a slot.
    pub async fn forecast(
        &self,
        lane: &LaneInForce,
        load: ImaginedLoad,
    ) -> StoreResult<(Forecast, Option<Enough>)> {
        let now = self.store.now().await?;
        let from = load.at.unwrap_or(now).max(now);
        let taken = self.taken(lane, now).await?;
        let group = Group {
            from,
            deadline: load.deadline,
            count: load.count,
        };
        let (lane, margin) = (lane.clone(), self.margin);
        let reckoned = self.reckon(move || {
            let mut counted = taken.clone();
            let forecast = forecast::forecast(&lane.windows(margin), &mut counted, &[group])?;
            let enough = match forecast.missed {
                0 => None,
                _ => forecast::enough(&lane, margin, &taken, &[group]),
            };
            Some((forecast, enough))
        });
        let too_far = "the forecast would need too many windows; use fewer items";
        reckoned
            .await?
            .ok_or_else(|| StoreError::Invalid(too_far.to_owned()))
    }

    /// Why a change should not be made without a second look: everything that waits would wait
    /// for very much longer.
    pub async fn strands(
        &self,
        name: &LaneName,
        change: LaneChange,
    ) -> StoreResult<Option<String>> {
        let Some(before) = self.store.lane(name).await? else {
            return Ok(None);
        };
        let after = self.changed(before.clone(), change).await?;
        self.strands_between(&before, &after).await
    }

    /// The same of a lane as it is, and as it would be.
    pub async fn strands_between(
        &self,
        before: &LaneInForce,
        after: &LaneInForce,
    ) -> StoreResult<Option<String>> {
        let name = &before.name;
        let found = self.store.unsent(name, &self.item_types, NEAR).await?;
        let Some(found) = found.filter(|found| !found.near.is_empty()) else {
            return Ok(None);
        };
        let queued = self.store.backlog(name, Timestamp::MAX, u32::MAX).await?;
        // A pause that somebody will end is no answer to how long things take.
        let drained = |lane: &LaneInForce| {
            let mut lane = lane.clone();
            lane.lane.pause = lane.lane.pause.filter(|pause| pause.until.is_some());
            lane.storm = None;
            drained_under(&lane, &found, self.margin)
        };
        let (before, after) = (drained(before), drained(after));
        let much_later = match (before, after) {
            (Some(before), Some(after)) => after.duration_since(before) > STRANDED,
            (_, None) => true,
            (None, Some(_)) => false,
        };
        Ok(much_later.then(|| {
            let after = after.map_or("never".to_owned(), |after| after.to_string());
            format!(
                "{queued} items wait on lane \"{name}\", and the last one could only be sent at {after}; repeat with \"confirm\": true to apply the change"
            )
        }))
    }

    /// Places everything that waits anew, some at a time. `way`: from slot to turn, as deadlines are judged.
    pub async fn replan(
        &self,
        name: &LaneName,
        way: Duration,
        author: Author,
    ) -> StoreResult<ReplanEffect> {
        let generation = self.store.begin_replan(name, author.clone()).await?;
        self.place_all(name, generation, way, author).await
    }

    /// Changes a lane that is still at this version, and places everything that waits by the new numbers. `None`: it
    /// was changed meanwhile, and stays as it is.
    pub async fn adjust(
        &self,
        name: &LaneName,
        version: i64,
        change: LaneChange,
        way: Duration,
        author: Author,
    ) -> StoreResult<Option<(LaneInForce, ReplanEffect)>> {
        let begun = self
            .store
            .adjust_lane(name, version, change, author.clone())
            .await?;
        let Some((lane, generation)) = begun else {
            return Ok(None);
        };
        let effect = self.place_all(name, generation, way, author).await?;
        Ok(Some((lane, effect)))
    }

    /// Finishes a replan that was cut off, and recounts the lane's windows; counts and logs what
    /// it has corrected, whoever asked for it.
    pub async fn reconcile(&self, name: &LaneName) -> StoreResult<Recounted> {
        if let Some(generation) = self.store.open_replan(name).await? {
            let author = Author::new(actor::RECONCILIATION, "the replan was interrupted");
            // Nobody is told its counts but the audit.
            self.place_all(name, generation, LEAST_WAY, author).await?;
        }
        let recounted = self.store.recount(name).await?;
        metrics::counter!("tollgate_windows_corrected_total", "lane" => name.to_string())
            .increment(recounted.windows);
        if recounted != Recounted::default() {
            tracing::warn!(lane = %name, %recounted, "counters differed from slots");
        }
        Ok(recounted)
    }

    async fn place_all(
        &self,
        name: &LaneName,
        generation: i64,
        way: Duration,
        author: Author,
    ) -> StoreResult<ReplanEffect> {
        let before = self.store.unsent(name, &self.item_types, 0).await?;
        let before = before.ok_or_else(|| StoreError::Invalid(no_such_lane(name)))?;
        let (mut moved, mut uncounted) = (vec![], 0);
        for item_type in &self.item_types {
            let mut after: Option<QueuePosition> = None;
            loop {
                let placed = self
                    .store
                    .replan_some(name, item_type, generation, after, CHUNK)
                    .await?;
                let Some(last) = placed.last() else { break };
                after = Some(last.item.spot());
                if moved.len() > MOST_PREVIEWED {
                    uncounted += placed.len() as u64;
                    continue;
                }
                moved.extend(placed.iter().map(|it| Moved::new(&it.item, Some(it.to))));
            }
        }
        let margin = self.margin;
        let counted = self.reckon(move || {
            let plans = Plans {
                before: &before,
                after: &before.lane,
                margin,
                way,
            };
            plans.effect(&moved)
        });
        let mut effect = counted.await?;
        effect.waiting += uncounted;
        effect.untold += uncounted;
        let summary = effect.to_string();
        self.store
            .end_replan(name, generation, summary, author)
            .await?;
        Ok(effect)
    }

    /// Everything that waits on a lane, and what its windows hold besides.
    async fn queue(
        &self,
        lane: &LaneInForce,
        now: Timestamp,
    ) -> StoreResult<(Vec<Waiting>, Taken)> {
        let mut taken = self.taken(lane, now).await?;
        let mut waiting: Vec<Waiting> = vec![];
        for item_type in &self.item_types {
            let mut after: Option<QueuePosition> = None;
            loop {
                let page = self
                    .store
                    .waiting(&lane.name, item_type, after, CHUNK)
                    .await?;
                let Some(last) = page.last() else { break };
                after = Some(last.spot());
                waiting.extend(page);
                if waiting.len() > MOST_PREVIEWED {
                    return Err(StoreError::Invalid(format!(
                        "more than {MOST_PREVIEWED} items wait on lane \"{}\": too many to preview",
                        lane.name
                    )));
                }
            }
        }
        let windows = lane.windows(self.margin);
        for item in &waiting {
            if let Some(counter) = taken.get_mut(&windows.start_of(item.window)) {
                counter.used = counter.used.saturating_sub(1);
            }
        }
        Ok((waiting, taken))
    }

    /// What the lane's windows hold, counted by the windows it has or would have.
    async fn taken(&self, lane: &LaneInForce, now: Timestamp) -> StoreResult<Taken> {
        let windows = lane.windows(self.margin);
        let from = windows.start_of(now);
        let mut taken = Taken::new();
        for window in self.store.windows(&lane.name, from, MOST_WINDOWS).await? {
            let counter = taken.entry(windows.start_of(window.start)).or_default();
            counter.used += window.used;
        }
        Ok(taken)
    }
}
